"""`collc serve` and `collc.Client`, in processes of their own (the extra collc[serve])."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import collc

for package in ("starlette", "uvicorn", "prometheus_client"):
    pytest.importorskip(package)

PROGRAM = "import std.topologies\ntopology loop = ring(8, bandwidth: 50GiB/s, latency: 0.5us)\n"
ASK = {"collective": "all_gather", "size": "12MiB", "chunks": 1}


@dataclass
class Server:
    process: subprocess.Popen[str]
    address: str
    folder: Path

    def memory(self) -> int:
        """Bytes of resident memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def start(folder: Path, *options: str, program: str = PROGRAM) -> Server:
    folder.joinpath("net.coll").write_text(program)
    words = [
        sys.executable,
        "-m",
        "collc",
        "serve",
        str(folder / "net.coll"),
        "--cache",
        str(folder / "cache"),
        *options,
    ]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=folder)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert " is served at " in line, line + process.stderr.read()
    return Server(process, line.split()[-1], folder)


def ready(server: Server) -> collc.Client:
    client = collc.Client(server.address)
    for _ in range(200):
        try:
            client.health()
        except OSError:
            time.sleep(0.05)
        else:
            return client
    raise AssertionError("the server does not listen")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start(tmp_path_factory.mktemp("serve"), "--port", str(free_port()), "--body", "4KiB")
    ready(server)
    yield server
    server.process.terminate()
    assert server.process.wait(30) == 0
    assert server.process.stderr is not None
    assert server.process.stderr.read() == ""


@pytest.fixture
def client(server: Server) -> collc.Client:
    return ready(server)


def test_answers_are_those_of_the_planner(client: collc.Client) -> None:
    npus = [5, 4, 3]
    answer = client.plan(**ASK, npus=npus, runtime="msccl")
    ring = collc.Network.of("ring", 8, bandwidth="50GiB/s", latency="0.5us")
    with collc.Planner(ring) as planner:
        own = planner.plan(**ASK, npus=npus, runtime="msccl")
    assert (answer.time_ps, answer.ranks) == (own.time_ps, [list(ranks) for ranks in own.ranks])
    assert {answer.read_file()} == {*own.files.values()}
    again = client.plan(**ASK, npus=[0, 7, 6], runtime="msccl")
    assert (again.origin, again.read_file()) == ("renamed", answer.read_file())
    assert client.plan(**ASK, npus=npus, within="20s").time_ps > 0
    beside = [{**ASK, "npus": np.array([1, 2])}]
    assert len(client.plan(**ASK, npus=np.array([5, 4]), beside=beside).ranks) == 2
    assert 'collc_answers_total{origin="renamed"}' in client.metrics()


def test_answers_and_requests_have_the_published_schema(client: collc.Client, server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(server.address.rpartition(":")[2]))
    connection.request("GET", "/v1/schema")
    parts = json.loads(connection.getresponse().read())["$defs"]
    answer = client.plan(**ASK)
    assert answer.facts.keys() == {*parts["answer"]["required"]}
    assert {*ASK, "dead", "beside", "within", "npus", "runtime"} <= parts["request"]["properties"].keys()
    types = {"integer": int, "string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}
    for name, schema in parts["answer"]["properties"].items():
        kinds = schema.get("type", "string")
        assert isinstance(answer.facts[name], tuple(types[k] for k in ([kinds] if isinstance(kinds, str) else kinds)))


def test_errors_are_those_of_the_planner(client: collc.Client) -> None:
    for wrong, text in (
        ({"collective": "all_gathr"}, "did you mean"),
        (ASK | {"npus": [0, 99]}, "NPU 99"),
        (ASK | {"dead": "npu[9]"}, "no parts"),
        (ASK | {"within": "soon"}, "within"),
        (ASK | {"npus": "01"}, "a list of numbers"),
        (ASK | {"npus": [0.0, 1.0]}, "a list of numbers"),
    ):
        with pytest.raises(collc.UsageError) as caught:
            client.plan(**wrong)
        assert text in str(caught.value)
    with pytest.raises(collc.CollcError, match="no such plan"):
        client.read_file("0" * 64, "plan.xml")
    with pytest.raises(collc.CollcError, match="at most 4096 bytes"):
        client.plan(**ASK, npus=[*range(5000)])


def test_what_has_no_schedule_has_status_422(client: collc.Client) -> None:
    dead = ["npu[0] <-> npu[1]", "npu[4] <-> npu[5]"]
    with pytest.raises(collc.NoSchedule):
        client.plan(**ASK, dead=dead)
    assert 'collc_errors_total{status="422"} 1.0' in client.metrics()


def test_a_server_on_ipv6_is_reached_by_its_address(tmp_path: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as free:
            free.bind(("::1", 0))
            port = free.getsockname()[1]
    except OSError:
        pytest.skip("this machine has no IPv6")
    server = start(tmp_path, "--host", "::1", "--port", str(port))
    assert server.address == f"http://[::1]:{port}"
    assert ready(server).health()["network"] == "loop"
    server.process.terminate()
    assert server.process.wait(30) == 0


def test_a_deadline_gives_no_files_and_a_slow_body_is_refused(tmp_path: Path) -> None:
    server = start(tmp_path, "--socket", str(tmp_path / "socket"), "--answer-limit", "10s")
    assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
    answer = collc.Client(server.address, timeout=20).plan(**ASK, runtime="msccl", within="9s")
    assert (answer.final, answer.facts["files"]) == (False, {})
    with socket.socket(socket.AF_UNIX) as slow:
        slow.settimeout(20)
        slow.connect(server.address)
        slow.sendall(b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        assert slow.recv(99).startswith(b"HTTP/1.1 408 ")
    words = [sys.executable, "-m", "collc", "serve", str(tmp_path / "net.coll"), "--socket", str(tmp_path)]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (refused.returncode, "U0164" in refused.stderr, "served" in refused.stderr) == (2, True, False)
    refused = subprocess.run([*words[:-2], "--port", "70000"], capture_output=True, text=True, check=False)
    assert (refused.returncode, "cannot listen" in refused.stderr) == (2, True)
    server.process.terminate()
    assert server.process.wait(30) == 0


def malformed(rng: random.Random) -> bytes:
    """The bytes of a request that is wrong somewhere."""
    body = bytearray(json.dumps(ASK | {"npus": [0, 1, 2], "dead": ["npu[5]"]}).encode())
    kind = rng.randrange(5)
    if kind == 0:
        body = bytearray(rng.randbytes(rng.randrange(200)))
    elif kind == 1:
        values = rng.choice([[], {}, -1, 2**70, 1e308, "x" * 900, None, True, [[[1]]], {"a": 1}, "0", ["\0"]])
        body = bytearray(
            json.dumps(ASK | {rng.choice([*ASK, "npus", "dead", "beside", "within", "q"]): values}).encode()
        )
    elif kind == 2:
        body = bytearray(b"[" * rng.randrange(1, 3000))
    else:
        for _ in range(rng.randrange(1, 9)):
            body[rng.randrange(len(body))] = rng.randrange(256)
    length = len(body) + (rng.choice([-1, 0, 7]) if kind == 3 else 0)
    head = (
        f"POST /v1/plan HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {max(0, length)}\r\n\r\n".encode()
    )
    if kind == 4:
        head = bytes(rng.randrange(256) if rng.random() < 0.05 else byte for byte in head)
    return head + bytes(body)


def send(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(64)
        except OSError:
            return b""


COUNT = int(os.environ.get("COLLC_MALFORMED", "2000"))


def test_malformed_requests_neither_end_the_server_nor_make_it_grow(server: Server, client: collc.Client) -> None:
    port, rng = int(server.address.rpartition(":")[2]), random.Random(5)
    statuses: set[bytes] = set()
    requests = [malformed(rng) for _ in range(COUNT)]
    before = 0
    for number, data in enumerate(requests):
        statuses.add(send(port, data)[9:12])
        if number == COUNT // 4:
            before = server.memory()
    assert client.plan(**ASK).time_ps > 0
    assert server.process.poll() is None
    assert b"400" in statuses
    assert b"500" not in statuses
    assert server.memory() < before + (16 << 20)


def ask_for_much(client: collc.Client) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        client.plan("all_to_all", size="64MiB")


def is_running(process: str) -> bool:
    try:
        return "python" in str(Path(f"/proc/{process}/exe").readlink())
    except OSError:
        return False


def test_the_cache_survives_a_kill(tmp_path: Path) -> None:
    server = start(tmp_path, "--socket", str(tmp_path / "socket"))
    answers = [ready(server).plan(**ASK, npus=npus, runtime="msccl") for npus in ([0, 1], [0, 1, 2])]
    files = [answer.read_file() for answer in answers]
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    busy = threading.Thread(target=ask_for_much, args=(ready(server),))
    busy.start()
    time.sleep(0.1)
    server.process.kill()
    server.process.wait()
    busy.join()
    for _ in range(200):
        if not any(is_running(child) for child in children):
            break
        time.sleep(0.05)
    assert not any(is_running(child) for child in children)
    server = start(tmp_path, "--socket", str(tmp_path / "socket"))
    again = [ready(server).plan(**ASK, npus=npus, runtime="msccl") for npus in ([0, 1], [0, 1, 2])]
    assert [answer.origin for answer in again] == ["cache", "cache"]
    assert [answer.read_file() for answer in again] == files
    server.process.terminate()
    server.process.wait(30)


def test_a_token_is_needed_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "net.coll").write_text(PROGRAM)
    words = [sys.executable, "-m", "collc", "serve", str(tmp_path / "net.coll"), "--host", "0.0.0.0"]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (refused.returncode, "U0165" in refused.stderr) == (2, True)
    (tmp_path / "token").write_text("secret\n")
    server = start(tmp_path, "--port", str(free_port()), "--token-file", str(tmp_path / "token"))
    ready(server)
    for token in ("", "wrong"):
        with pytest.raises(collc.CollcError, match="token"):
            collc.Client(server.address, token=token).metrics()
    assert "collc_plans_waiting" in collc.Client(server.address, token="secret").metrics()
    server.process.terminate()
    server.process.wait(30)
