"""Schedules of collc as a backend of `torch.distributed`.

    import collc.torch
    dist.init_process_group("collc")        # COLLC_SCHEDULES=out/ names the folder with the run files

A call for which the folder has a file runs as the rounds of the file (`collc.runtime.rounds`): over TCP, and on GPUs
over batches of NCCL's point-to-point calls. All other calls are those of gloo and NCCL, the inner backends; `counts`
says how many, and the logger `collc` why.
"""

from __future__ import annotations

import os
import queue
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from collc.runtime.buffers import Buffers, fits
from collc.runtime.links import BrokenLink, Links, own_address
from collc.runtime.placement import names_of_process
from collc.runtime.rendezvous import Rendezvous
from collc.runtime.rounds import Round, Rows
from collc.runtime.run_program import RunProgram
from collc.runtime.schedules import ScheduleError, Schedules
from collc.runtime.tcp import AT_ONCE

FOLDER = "COLLC_SCHEDULES"
"""The environment variable with the folder of run files."""
NPU = "COLLC_NPU"
"""The environment variable with the name or label of this process's NPU, as in the programs of the files."""

DEVICES = ("cpu", "cuda")
"""Types of devices whose tensors schedules take."""

_REDUCTIONS: dict[Any, Callable[..., torch.Tensor]] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.AVG: torch.add,
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.MIN: torch.minimum,
}


def counts(group: dist.ProcessGroup | None = None) -> dict[tuple[str, str], int]:
    """How many calls of a group (the default: of all processes) were served, by collective and by file or reason."""
    chosen = group or dist.group.WORLD
    if not isinstance(chosen, ScheduledGroup):
        raise TypeError(f"not a group of the backend 'collc': {chosen}")
    return dict(chosen.schedules.counts)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that a file serves. name: of the file. given, taken: input and output as vectors, which may be one.
    reduction: function of two tensors. divides: whether the sums are divided by the number of ranks.
    """

    name: str
    program: RunProgram
    given: torch.Tensor
    taken: torch.Tensor
    reduction: Callable[..., torch.Tensor]
    divides: bool


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What runs in a call. buffers: the memory. rounds: what exchanges the messages of each, and then the targets and
    the operands of its work.
    """

    buffers: Buffers
    rounds: list[tuple[Callable[[], None], list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]]]


@dataclass(slots=True)
class _Task:
    """Calls that run one after the other. result: the tensors that they fill. done: has a value when they are over;
    None if they were over when the call returned.
    """

    calls: list[_Call]
    result: Sequence[torch.Tensor]
    done: torch.futures.Future[None] | None
    error: Exception | None = None

    def outcome(self, _done: object = None) -> list[torch.Tensor]:
        """The result. Raises the error, if there was one."""
        if self.error is not None:
            raise self.error
        return list(self.result)


class _Work(dist._Work):
    """What a call returns. torch's own work for a future would not raise the error of the call when one waits."""

    def __init__(self, task: _Task) -> None:
        super().__init__()
        self._task = task

    def wait(self, timeout: timedelta | None = None) -> bool:  # noqa: ARG002
        """Wait for the end of the call, which has a time-out of its own. Raises its error."""
        if self._task.done is not None:
            self._task.done.wait()
        self._task.outcome()
        return True

    def is_completed(self) -> bool:
        """Whether the call is over."""
        return self._task.done is None or self._task.done.done()

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """The future of the tensors, which raises the error of the call."""
        done = self._task.done
        if done is None:
            devices = {tensor.device for tensor in self._task.result if tensor.is_cuda}
            done = torch.futures.Future[None](devices=sorted(devices, key=str))
            done.set_result(None)
        return done.then(self._task.outcome)

    def result(self) -> list[torch.Tensor]:
        """The tensors. Raises the error of the call."""
        return self._task.outcome()


class ScheduledGroup(dist.ProcessGroup):
    """A process group that runs schedules, and leaves other calls to gloo, and to NCCL for tensors on GPUs.

    Calls run in the order in which they are made: at once if they are synchronous and none is under way, else in one
    thread; those on GPUs are put into the current stream. After a call that failed, all further ones fail.
    """

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._rank, self._size, self._store = rank, size, store
        self._scratch: dict[torch.dtype, torch.Tensor] = {}
        self._prepared: dict[tuple[object, ...], _Prepared] = {}
        self._failed: ScheduleError | None = None
        self._name = ""
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        seconds = timeout.total_seconds()
        self._rendezvous = Rendezvous(store, rank, size, seconds)
        self._links = Links(store, rank, size, own_address(), seconds)  # others see when this rank ends
        try:
            self._make(timeout)
        except BaseException as error:
            failure = self._end_all(f"no group: rank {rank}: {_reason(error)}")
            if isinstance(error, (BrokenLink, ScheduleError)):
                raise failure from error
            raise

    def _make(self, timeout: timedelta) -> None:
        """Read the files, and connect to all others. Raises BrokenLink and ScheduleError if a rank ends meanwhile."""
        folder = os.environ.get(FOLDER)
        names = self._rendezvous.names(names_of_process(os.environ.get(NPU, "")))
        self.schedules = Schedules.read(Path(folder) if folder else None, self._rank, self._size, names)
        self._rendezvous.check_files(self.schedules.digest)
        self._links.connect(self.schedules.peers)
        self._rendezvous.meet()  # gloo would not notice that a rank has ended
        self.inner = _inner_group(self._store, self._rank, self._size, timeout)

    # What torch asks of a group.

    def size(self) -> int:
        """How many ranks there are."""
        return self._size

    def rank(self) -> int:
        """The rank of this process."""
        return self._rank

    def getBackendName(self) -> str:  # noqa: N802
        """The name of the backend."""
        return "collc"

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_name(self) -> str:
        """The name that torch gives to the group."""
        return self._name

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce each tensor in place over all ranks."""
        opts = opts or dist.AllreduceOptions()
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        calls = [self._call("allreduce", tensor, tensor, op=opts.reduceOp) for tensor in tensors]
        return self._run("allreduce", calls, tensors, opts, partial(self.inner.allreduce, tensors, opts))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce each tensor in place over all ranks."""
        opts = opts or dist.AllreduceCoalescedOptions()
        calls = [self._call("allreduce", tensor, tensor, op=opts.reduceOp) for tensor in tensors]
        return self._run("allreduce", calls, tensors, opts, partial(self.inner.allreduce_coalesced, tensors, opts))

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        """Concatenate the inputs of all ranks in the output."""
        calls, more = [self._call("allgather", input, output)], (opts,) if opts else ()
        return self._run(
            "allgather", calls, [output], opts, partial(self.inner.all_gather_single, output, input, *more)
        )

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """All-Gathers, one after the other."""
        calls = [self._call("allgather", *pair) for pair in zip(inputs, outputs, strict=True)]
        inner, more = self.inner.allgather_into_tensor_coalesced, (opts,) if opts else ()
        return self._run("allgather", calls, outputs, opts, partial(inner, outputs, inputs, *more))

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        """Reduce the inputs; each rank gets its block."""
        opts = opts or dist.ReduceScatterOptions()
        calls = [self._call("reducescatter", input, output, op=opts.reduceOp)]
        return self._run(
            "reducescatter", calls, [output], opts, partial(self.inner.reduce_scatter_single, output, input, opts)
        )

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Reduce-Scatters, one after the other."""
        opts = opts or dist.ReduceScatterOptions()
        pairs = zip(inputs, outputs, strict=True)
        calls = [self._call("reducescatter", *pair, op=opts.reduceOp) for pair in pairs]
        inner = self.inner.reduce_scatter_tensor_coalesced
        return self._run("reducescatter", calls, outputs, opts, partial(inner, outputs, inputs, opts))

    def all_to_all_single(
        self,
        output: Any,
        input: Any,
        output_splits: Any,
        input_splits: Any,
        opts: Any = None,
    ) -> Any:
        """Send block r of the input to rank r. Calls with splits are gloo's: ours may be equal when others are not."""
        has_splits = bool(output_splits or input_splits)
        calls = ["splits of the call" if has_splits else self._call("alltoall", input, output)]
        more = (opts,) if opts else ()
        inner = partial(self.inner.all_to_all_single, output, input, output_splits, input_splits, *more)
        return self._run("alltoall", calls, [output], opts, inner)

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        """Copy the tensor of the root to all ranks."""
        opts = opts or dist.BroadcastOptions()
        calls = [self._call("broadcast", tensor, tensor, opts.rootRank) for tensor in tensors]
        return self._run("broadcast", calls, tensors, opts, partial(self.inner.broadcast, tensors, opts))

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce the tensors of all ranks to the root."""
        opts = opts or dist.ReduceOptions()
        calls = [self._call("reduce", tensor, tensor, opts.rootRank, opts.reduceOp) for tensor in tensors]
        return self._run("reduce", calls, tensors, opts, partial(self.inner.reduce, tensors, opts))

    _allgather_base = all_gather_single
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    alltoall_base = all_to_all_single

    def shutdown(self) -> None:
        """End the thread of the group, after its calls."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
            self._thread = None
        self._links.close()
        self.inner.shutdown()

    def abort(self) -> None:
        """End all connections, so that the calls of the other ranks fail."""
        self._end_all(f"rank {self._rank} aborted the group")
        self.inner.abort()

    def _fail(self, call: _Call, number: int, rounds: int, error: BaseException) -> ScheduleError:
        """End the group after an error in a round."""
        place = f"{call.program.coll} of {call.name}, round {number} of {rounds}"
        return self._end_all(f"rank {self._rank} ({call.program.npus[self._rank]}), {place}: {_reason(error)}")

    def _end_all(self, text: str) -> ScheduleError:
        """Let this call, all further ones and those of other ranks fail. Returns the error, with the first of all."""
        if self._failed is None:
            self._failed = ScheduleError(self._rendezvous.failure(text))
            self._links.close()
        return self._failed

    # How a call runs.

    def _call(
        self,
        coll: str,
        given: torch.Tensor,
        taken: torch.Tensor,
        root: int = -1,
        op: Any = dist.ReduceOp.SUM,
    ) -> _Call | str:
        """The run of a file from an input to an output; or the reason why the inner backend has to do the call."""
        if not (given.is_contiguous() and taken.is_contiguous()) or given.device.type not in DEVICES:
            return "a tensor that is not contiguous, or on another device"
        reduction = next((function for known, function in _REDUCTIONS.items() if op == known), None)
        if reduction is None or not given.numel():
            return "no elements, or another reduction"
        if (given.dtype, given.device) != (taken.dtype, taken.device) or not fits(
            coll, self._size, given.numel(), taken.numel()
        ):
            return "an input and an output that do not fit each other"
        chosen = self.schedules.choose(coll, given.nbytes, root, str(given.dtype).removeprefix("torch."))
        if isinstance(chosen, str):
            return chosen
        return _Call(*chosen, given.detach().view(-1), taken.detach().view(-1), reduction, op == dist.ReduceOp.AVG)

    def _run(
        self,
        coll: str,
        calls: list[_Call | str],
        result: Any,
        opts: Any,
        inner: Callable[[], Any],
    ) -> Any:
        """Run calls by their files if all have one, else by the inner backend. Returns the work to wait for."""
        reason = next((call for call in calls if isinstance(call, str)), None)
        own = [call for call in calls if not isinstance(call, str)]
        for call in calls:
            self.schedules.count(coll, reason or call.name)
        if reason is not None or not own:
            return inner()
        with self._lock:
            alone = self._is_batched(own[0].given) or not (self._waiting or getattr(opts, "asyncOp", True))
            self._waiting += 1
        task = _Task(own, result, None if alone else torch.futures.Future())
        if alone:
            self._finish(task)
            task.outcome()
        else:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="collc", daemon=True)
                self._thread.start()
            self._tasks.put(task)
        return _Work(task)

    def _work(self) -> None:
        """Run calls until the group ends."""
        while (task := self._tasks.get()) is not None:
            self._finish(task)

    def _finish(self, task: _Task) -> None:
        try:
            with self._turn, torch.no_grad():  # calls of several threads take turns
                for call in task.calls:
                    self._execute(call)
        except Exception as error:
            task.error = error
        with self._lock:
            self._waiting -= 1
        if task.done is not None:
            task.done.set_result(None)

    def _execute(self, call: _Call) -> None:
        """Run a call. Raises ScheduleError if a message fails or does not come in time."""
        if self._failed is not None:
            raise self._failed
        small = not self._is_batched(call.given) and max(call.given.nbytes, call.taken.nbytes) <= AT_ONCE
        what = call.name, len(call.given), len(call.taken), call.given.dtype, call.reduction, call.divides
        prepared = self._prepared.get(what) if small else None
        if prepared is None:
            prepared = self._prepare(call, small=small)
            if small:
                if len(self._prepared) == 256:  # calls of ever new lengths would take ever more memory
                    del self._prepared[next(iter(self._prepared))]
                self._prepared[what] = prepared
        self._run_rounds(prepared, call)

    def _prepare(self, call: _Call, *, small: bool) -> _Prepared:
        """A call with its rounds. small: in memory of its own, and in few rounds, for further calls."""
        given, taken, address = call.given, call.taken, torch.Tensor.data_ptr
        buffers = Buffers(call.program, self._rank, given, taken, _zeros, address, kept=small)
        rounds = self.schedules.rounds(call.name, call.program, inplace=buffers.inplace, joined=small)
        rows = buffers.rows(rounds, _zeros if small else self._scratch_of)
        if self._is_batched(call.given):
            exchanges = [partial(self._exchange_in_batch, rows, step) for step in rounds.rounds]
        else:
            what = call.name, buffers.inplace, len(given), given.dtype, call.reduction.__name__, call.divides
            octets, about = rows.as_bytes(_octets, given.element_size()), zlib.crc32(repr(what).encode())
            exchanges = [self._links.frames(octets, step, about) for step in rounds.rounds]
        works = [[rows.operands(work) for work in step.work] for step in rounds.rounds]
        return _Prepared(buffers, list(zip(exchanges, works, strict=True)))

    def _run_rounds(self, prepared: _Prepared, call: _Call) -> None:
        buffers = prepared.buffers
        buffers.load(call.given)
        for number, (exchange, works) in enumerate(prepared.rounds):
            try:
                exchange()
                for target, first, second in works:
                    if second is None:
                        target.copy_(first)
                    else:
                        call.reduction(first, second, out=target)
            except BaseException as error:  # Ctrl-C too, or else later calls would find messages of this one
                failure = self._fail(call, number + 1, len(prepared.rounds), error)
                if isinstance(error, Exception):
                    raise failure from error
                raise
        if call.divides:
            _divide(buffers.target, self._size)
        buffers.store(call.taken)

    @staticmethod
    def _is_batched(tensor: torch.Tensor) -> bool:
        """Whether the inner backend moves the messages of a tensor, and a round in one batch."""
        return tensor.is_cuda

    def _exchange_in_batch(self, rows: Rows, step: Round) -> None:
        """Exchange the messages of a round by one batch of point-to-point calls of the inner backend."""
        device = rows(step.messages[0].first, 1).device if step.messages else None
        if device is not None:
            self.inner._start_coalescing(device)
            for call, messages in ((self.inner.recv, step.receives), (self.inner.send, step.sends)):
                for message in messages:
                    call([rows(message.first, message.length)], message.peer, 0)
            self.inner._end_coalescing(device).wait()

    def _scratch_of(self, like: torch.Tensor, elements: int) -> torch.Tensor:
        """Memory for scratch and spare slots, which later calls use again; on GPUs torch knows when it is free."""
        if like.is_cuda:
            return like.new_empty(elements)
        kept = self._scratch.get(like.dtype)
        if kept is None or len(kept) < elements:
            kept = self._scratch[like.dtype] = torch.empty(elements, dtype=like.dtype)
        return kept[:elements]


def _inner_group(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.ProcessGroup:
    """Gloo, and NCCL if this machine has a GPU for it."""
    inner, types = dist.ProcessGroup(store, rank, size), dist.ProcessGroup.BackendType
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout)
    inner._set_default_backend(types.GLOO)
    inner._register_backend(torch.device("cpu"), types.GLOO, gloo)
    if torch.cuda.is_available() and dist.is_nccl_available():
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timeout
        nccl = dist.ProcessGroupNCCL(dist.PrefixStore("nccl", store), rank, size, options)
        inner._register_backend(torch.device("cuda"), types.NCCL, nccl)
    return inner


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__  # Ctrl-C has no text


def _octets(vector: torch.Tensor) -> memoryview:
    return memoryview(vector.view(torch.uint8).numpy())


def _zeros(like: torch.Tensor, elements: int) -> torch.Tensor:
    return like.new_zeros(elements)


def _divide(sums: torch.Tensor, ranks: int) -> None:
    """Divide sums by the number of their terms, integers with the result rounded down."""
    torch.div(sums, ranks, rounding_mode=None if sums.is_floating_point() or sums.is_complex() else "floor", out=sums)


def _create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> ScheduledGroup:
    return ScheduledGroup(store, rank, size, timeout)


def _passed_on(name: str) -> Callable[..., Any]:
    """A call of the inner backend, which is counted."""

    def call(self: ScheduledGroup, *arguments: Any, **options: Any) -> Any:
        self.schedules.count(name, "left to gloo")
        return getattr(self.inner, name)(*arguments, **options)

    return call


_LISTS = ("allgather", "gather", "scatter", "reduce_scatter", "alltoall")
for _name in (*_LISTS, "barrier", "send", "recv", "recv_anysource"):
    setattr(ScheduledGroup, _name, _passed_on(_name))

dist.Backend.register_backend("collc", _create, devices=[*DEVICES])
