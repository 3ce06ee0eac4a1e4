"""A process that executes the program of one rank, on data that its starter gives, over TCP.

The starter writes frames to standard input: the run file, with the rank, the call, a token, the longest wait for a
message and the address to listen at; where connections lead, with the memory; and any number of starts. The worker
answers on standard output: its port; that it is connected; and after each start what it did, with the memory, or an
error. It ends when standard input does.
"""

from __future__ import annotations

import socket
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collc.runtime.data import Memory, StepData
from collc.runtime.frames import read_frame, starts, write_frame
from collc.runtime.rank_program import OPS, Call, RankProgram
from collc.runtime.replay import Blocked, Interpreter
from collc.runtime.run_program import RunProgram
from collc.runtime.tcp import LinkError, Route, TcpTransport


def execute(
    program: RankProgram, memory: NDArray[Any], transport: TcpTransport, seconds: float
) -> tuple[int, list[Blocked]]:
    """Execute a program. Returns how many messages it sent, and threadblocks that wait after `seconds` without any."""
    call = program.call
    steps = StepData[NDArray[Any]](program.operands, Memory[NDArray[Any]](memory, OPS[call.op]), transport)
    counts, merge = steps.operands.count, call.merge

    def move(step: int, first: int, count: int) -> None:
        for message in range(first, first + count):
            steps.move(step, message * merge, min((message + 1) * merge, counts[step]))

    interpreter = Interpreter(program.waits, program.messages, call.capacity, move)
    while True:
        interpreter.run()
        working = [tb for tb in range(len(interpreter.at)) if not interpreter.is_done(tb)]
        if not working and transport.is_idle:
            return interpreter.sent, []
        arrived, left = transport.poll(seconds)
        if not arrived and not left:
            return interpreter.sent, [wait for tb in working if (wait := interpreter.wait_of(tb)) is not None]
        for connection, count in arrived.items():
            interpreter.arrive(connection, count)
        for connection, count in left.items():
            interpreter.depart(connection, count)


def main() -> None:
    """Execute one program, as often as the starter says."""
    commands, answers = sys.stdin.buffer, sys.stdout.buffer
    values, data = read_frame(commands)
    call, seconds = Call(**values["call"]), float(values["seconds"])
    program = RankProgram.of(RunProgram.from_bytes(data), values["rank"], call)
    try:
        with socket.create_server((values["host"], 0), backlog=max(1, len(program.connections))) as listener:
            write_frame(answers, {"port": listener.getsockname()[1]})
            links, data = read_frame(commands)
            routes = {number: Route(*route) for number, *route in links["routes"]}
            transport = TcpTransport(program, listener, routes, bytes.fromhex(values["token"]), seconds)
        initial = np.frombuffer(data, call.dtype).reshape(program.slots, call.elements)
        write_frame(answers, {"connected": True})
        for start in starts(commands):
            memory = initial.copy()
            transport.moments.clear()
            time.sleep(max(0.0, start["at"] - time.monotonic()))
            began = time.monotonic()
            sent, hung = execute(program, memory, transport, seconds)
            ended = time.monotonic()
            waits = [(wait.tb, wait.step - program.waits.first[wait.tb], wait.reason, wait.on) for wait in hung]
            did = {"began": began, "ended": ended, "sent": sent, "hung": waits}
            did |= {"moments": transport.moments} if start["moments"] else {}
            write_frame(answers, did, memory.tobytes())
    except (OSError, LinkError) as error:
        write_frame(answers, {"error": str(error), "of_another": isinstance(error, LinkError)})
    commands.read()  # others may still read what this rank sent
