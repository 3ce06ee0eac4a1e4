"""From a scheduled module to an MSCCL++ execution plan: one-sided puts, signals and waits instead of connections.

A message lands in the slot of its receiver for it, an operand of a sum in the slot of the sum or in a scratch slot
of its own. No slot is the target of two puts in one run, and each receiver signals its sender once that it has begun,
so that no run of the plan overwrites data of the run before: no further credits are needed. Threadblocks of a GPU wait
for one another with semaphores, one for each pair. If threadblocks by flow, as in an MSCCL file, need more than there
are, a threadblock does all that its GPU does with some of the chunks (`ThreadblocksByChunk`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import gcd
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.units import format_bytes
from collc.base.wording import plural
from collc.msccl.limits import (
    MOST_CHUNKS,
    PLAN_CHANNELS,
    PLAN_OPERATIONS,
    PLAN_PACKETS,
    PLAN_PORTS,
    PLAN_REGIONS,
    PLAN_SEMAPHORES,
    LimitUse,
    residency_notes,
)
from collc.msccl.lowering.assign import assign
from collc.msccl.lowering.dependencies import depend
from collc.msccl.lowering.flows import flows_of
from collc.msccl.lowering.fuse import fusable_pairs
from collc.msccl.lowering.merge import merge
from collc.msccl.lowering.messages import passing_on
from collc.msccl.lowering.repeat import repeat
from collc.msccl.lowering.select import first_program
from collc.msccl.options import MscclOptions, Placement, Profile, Protocol
from collc.msccl.plans.blocks import ThreadblocksByChunk, in_place, most_peers
from collc.msccl.plans.operations import Json, gpu_plans
from collc.msccl.plans.packets import packet_routes_of, packet_threadblock
from collc.msccl.plans.precheck import check_sums, node_notes, nodes_of_ranks, smallest_message
from collc.msccl.plans.routes import routes_of
from collc.msccl.plans.switch_blocks import (
    is_large,
    large_groups_fit,
    partial_sums_first,
    threadblocks_for_sums,
    with_helpers,
)
from collc.msccl.plans.switches import switch_program, switches_with_sums, uses_switches
from collc.msccl.program import Program
from collc.msccl.slots import with_common_slots
from collc.ten.module import Module
from collc.ten.network import Network

_NAME: Final = "MSCCL++ plan"
_OFFSETS: Final = 2**32 - 1
"""Largest offset in a buffer in bytes."""

_SELECTED: Final = ("allreduce", "allgather", "reducescatter", "broadcast")
"""Collectives for which the NCCL interface of MSCCL++ selects plans (docs/msccl-contract.md, section 6)."""

_PER_STEP: Final = Fraction(5, 2)
"""Operations per step, on average (measured for All-Reduce and All-to-All on meshes)."""

_MOST_PEERS_SERVED: Final = 32
_MOST_BLOCKS_PER_PEER: Final = 4
"""Most peers with threadblocks of their own, and most threadblocks of a flow: more would need too many waits."""

_LONGEST: Final = "operations in one threadblock"
_SEMAPHORES: Final = "semaphores on one GPU"

_MANY_BLOCKS: Final = 32
"""Shares of the chunks of a plan in which switches add, so that many operations over them are under way."""

_MOST_PIECES: Final = 8
"""Most threadblocks that share one chunk on a GPU."""


@dataclass(frozen=True, slots=True)
class _BlockForm:
    """How steps are grouped into threadblocks.

    divide: makes the program for a number of shares. least, most: numbers of shares to try. fewer: whether it has fewer
    shares, so longer threadblocks, than the form before. another: whether it is worth a plan if the form before
    has one.
    """

    divide: Callable[[int], Program]
    least: int
    most: int
    fewer: bool = False
    another: bool = False


def plan_of(module: Module, options: MscclOptions | None = None) -> Json:
    """The first of `plans_of`, which has the fewest threadblocks. Raises as that does."""
    return next(plans_of(module, options))


def plans_of(module: Module, options: MscclOptions | None = None) -> Iterator[Json]:
    """Execution plans of a module's schedule, as JSON values: in place if that is requested, else out of place.

    There is one, but two if switches add and multicast, the second one with more threadblocks: an operation over a
    switch waits for all its GPUs, and others can go on meanwhile. Which is faster is not known before both are
    simulated.

    Raises SourceError M0104, M0105, M0107 and M0109 as `lower` does, M0111 if a limit of MSCCL++ is exceeded, M0113 if
    the sizes begin at 2 GiB or more, M0120 for a reduction that is not a sum.
    """
    check_sums(module.demand)
    options = options or MscclOptions()
    inside = options.placement is Placement.IN
    options = replace(options, placement=Placement.IN if inside else Placement.OUT)
    node = nodes_of_ranks(module.network, options)
    closest: LimitUse | None = None
    for common in (True, False):
        if common and with_common_slots(module, options) is module.demand:
            continue
        limit = yield from _plans_of_program(_select_program(module, options, node, common=common), options, node)
        if limit is None:
            return
        closest = _closer(closest, limit)
    raise closest.error(_NAME) if closest else ValueError("no plan was tried")


def _size_notes(plan: Json) -> list[str]:
    """A note if no message with a power of two of bytes is served, since its parts would not be whole chunks."""
    chunks = max(max(gpu["input_chunks"], gpu["output_chunks"]) for gpu in plan["gpus"])
    parts = len(plan["gpus"]) if plan["collective"] in ("allgather", "reducescatter", "alltoall") else 1
    count = chunks // gcd(chunks, parts)
    if count & (count - 1) == 0:
        return []
    return [f"MSCCL++: serves only messages whose bytes {chunks} chunks divide, so none with a power of two"]


def _plans_of_program(
    start: Program, options: MscclOptions, node: tuple[int, ...]
) -> Generator[Json, None, LimitUse | None]:
    """The plans of a program after `select`. Returns the limit that is closest to being kept if there is none."""
    closest: LimitUse | None = None
    is_planned = False
    forms: Iterable[tuple[_BlockForm, Json | None]] = ((form, None) for form in _block_forms(start))
    for semaphores in (PLAN_SEMAPHORES, None):  # few first: each hand between threadblocks takes time
        last: LimitUse | None = None
        short: list[tuple[_BlockForm, Json | None]] = []
        for form, known in forms:
            if is_planned and not form.another:
                return None
            if form.fewer and last is not None and last.what == _LONGEST:
                continue
            fitted = _fit_plan(form, options, node, semaphores) if known is None else _Fitted(known)
            plan, last = fitted.plan, fitted.closest
            if plan is not None:
                is_planned = True
                yield plan
            closest = _closer(closest, last)
            if fitted.lacks_semaphores:
                short.append((form, fitted.with_more))
        if is_planned:
            return None
        forms = short  # the others exceed other limits with any number of semaphores
    return closest


def remarks_of(plan: Json, options: MscclOptions, network: Network | None = None) -> list[str]:
    """Remarks on a plan for the report. options, network: those with which it was made."""
    most = max((len(gpu["threadblocks"]) for gpu in plan["gpus"]), default=0)
    scratch = max((gpu["scratch_chunks"] for gpu in plan["gpus"]), default=0)
    notes = [
        f"MSCCL++: at most {plural(most, 'threadblock')}, {plural(_semaphores(plan), 'semaphore')} and "
        f"{plural(scratch, 'scratch chunk')} on a GPU, {plural(_longest(plan), 'operation')} in a threadblock"
    ]
    notes += residency_notes(most) + _size_notes(plan)
    if network is not None:
        notes += node_notes(nodes_of_ranks(network, options), options)
        if switches_with_sums(network).any() and plan["collective"] in ("reducescatter", "reduce"):
            notes.append(
                "MSCCL++ has no operation that loads a sum from a switch for one GPU alone: "
                "in this plan switches add nothing"
            )
    if any(remote["type"] != "s" for gpu in plan["gpus"] for remote in gpu["remote_buffers"]):
        notes.append(
            "MSCCL++: tensors must begin at one offset in their allocations on all ranks, or use 'same_offsets: false'"
        )
    if plan["collective"] not in _SELECTED:
        notes.append(
            f"only the Executor of MSCCL++ runs a plan for {plan['collective']}: "
            "its NCCL interface selects plans for " + ", ".join(_SELECTED)
        )
    if options.protocol is Protocol.LL and options.sizes[1] is None:
        size = format_bytes(plan["max_message_size"])
        notes.append(f"packets (LL) are for small messages: the plan serves up to {size}, unless 'sizes' says more")
    if plan["max_message_size"] != (options.sizes[1] or 0) and options.sizes[1] is not None:
        notes.append(f"for buffers up to {plan['max_message_size']} bytes only: the runtime's offsets have 32 bits")
    return notes


def _select_program(module: Module, options: MscclOptions, node: tuple[int, ...], *, common: bool) -> Program:
    """The program after `select`; a collective that MSCCL++ has no name for is custom. node: of each rank. common: as
    for `first_program`, unless switches add.
    """
    if module.relays:  # a schedule for switches that only pass on, whatever they can do
        module = replace(module, network=passing_on(module.network))
    if uses_switches(module):
        if not options.same_offsets:
            message = "switches that add and multicast need tensors at one offset in their allocations on all ranks"
            raise SourceError(Diagnostic("M0107", message, hint="leave 'same_offsets' out"))
        if options.protocol is Protocol.LL:
            hint = "leave 'protocol' out, or let collc plan it for 'emit mscclpp' with packets"
            raise SourceError(Diagnostic("M0107", "packets do not go over switches that add and multicast", hint=hint))
        return switch_program(module, options, options.placement or Placement.OUT, node)
    inside = options.placement is Placement.IN
    outside = replace(options, placement=Placement.OUT)
    if options.custom:
        return first_program(module, replace(options, profile=Profile.OLD))
    try:
        program = first_program(module, outside if inside and _is_all_to_all(module) else options, common=common)
    except SourceError as error:
        if "M0105" in {message.code for message in error.diagnostics}:
            return first_program(module, replace(options, profile=Profile.OLD))
        raise
    return in_place(program) if inside and not program.placement.in_place else program


def _is_all_to_all(module: Module) -> bool:
    standard = module.demand.standard
    return standard is not None and standard.kind == "all_to_all"


def _block_forms(start: Program) -> Iterator[_BlockForm]:
    """Forms in the order in which they are tried: by flow, then by chunk; with merged steps, then with single ones."""
    if is_large(start.messages) and large_groups_fit(start.messages):
        yield _BlockForm(lambda _: with_helpers(start), 1, 1)
        return
    if any(message.switch for message in start.messages):
        by_chunk = ThreadblocksByChunk(start)
        yield _BlockForm(by_chunk.divide, 1, len(start.messages))
        yield _BlockForm(by_chunk.divide, _MANY_BLOCKS, len(start.messages), another=True)
        least = threadblocks_for_sums(start)
        if least:
            first = partial(_divide_with_sums_first, by_chunk, least)
            yield _BlockForm(first, _MANY_BLOCKS, len(start.messages), another=True)
        return
    packets = start.protocol is Protocol.LL
    merged = start if packets else merge(start, MOST_CHUNKS if start.instances == 1 else 1)

    flows = min(_MOST_PEERS_SERVED, most_peers(start))
    if _usual_operations(merged) <= PLAN_OPERATIONS * _MOST_BLOCKS_PER_PEER * flows:
        fusable = fusable_pairs(merged)

        def by_flow(shares: int) -> Program:
            return assign(merged, flows_of(merged, shares), 1 << 20, 1 << 20, fusable)

        yield _BlockForm(by_flow, 1, len(merged.messages))
    by_chunk = ThreadblocksByChunk(start)
    least = max(flows, int(_usual_operations(start) // PLAN_OPERATIONS))
    yield _BlockForm(by_chunk.divide, least, by_chunk.most)
    yield _BlockForm(by_chunk.divide, 1, least - 1, fewer=True)
    yield _BlockForm(partial(by_chunk.divide, len(start.messages)), 2, _MOST_PIECES)


def _divide_with_sums_first(by_chunk: ThreadblocksByChunk, blocks: int, shares: int) -> Program:
    return partial_sums_first(by_chunk.divide(shares), blocks)


def _usual_operations(program: Program) -> Fraction:
    """An estimate of the number of operations of the busiest GPU."""
    return max((len(gpu.steps) for gpu in program.gpus), default=0) * _PER_STEP


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The plan with the fewest shares that keep the limits, None if there is none; the limit that others exceed least;
    whether some of them need more semaphores than allowed; and the first plan that keeps all other limits, if known.
    """

    plan: Json | None
    closest: LimitUse | None = None
    lacks_semaphores: bool = False
    with_more: Json | None = None


def _fit_plan(form: _BlockForm, options: MscclOptions, node: Sequence[int], most: int | None) -> _Fitted:
    """most: semaphores of a GPU; None: any number.

    If two numbers of shares leave threadblocks too long, all shares are tried before those between.
    """
    closest: LimitUse | None = None
    shares, shortest, idle, tried, lacks = form.least, 1 << 62, 0, 0, False
    with_more: Json | None = None
    while True:
        plan = _plan(depend(repeat(form.divide(shares))), options, node)
        broken, tried = _exceeded_limits(plan, most), tried + 1
        if not broken:
            return _Fitted(plan)
        closest = _closer(closest, max(broken, key=_excess))
        lacking = {excess.what == _SEMAPHORES for excess in broken}
        lacks = lacks or True in lacking
        with_more = with_more or (None if False in lacking else plan)
        longest, semaphores = _longest(plan), 0 if most is None else _semaphores(plan)
        idle = 0 if longest < shortest else idle + 1
        more = min(max(shares * 5 // 4 + 1, -(-shares * longest // PLAN_OPERATIONS)), form.most)
        if longest <= PLAN_OPERATIONS or idle > 1 or more <= shares or semaphores * more > shares * (most or 1):
            return _Fitted(None, closest, lacks, with_more)
        if tried == 2:
            widest = _plan(depend(repeat(form.divide(form.most))), options, node)
            if _longest(widest) > PLAN_OPERATIONS:
                broken = _exceeded_limits(widest, most)
                return _Fitted(None, _closer(closest, max(broken, key=_excess)), lacks, with_more)
        shares, shortest = more, min(shortest, longest)


def _excess(use: LimitUse) -> float:
    return use.needed / use.limit


def _closer(one: LimitUse | None, other: LimitUse | None) -> LimitUse | None:
    """Of two exceeded limits, the one with the smaller relative excess."""
    if one is None or other is None:
        return one or other
    return other if other.needed * one.limit < one.needed * other.limit else one


def _longest(plan: Json) -> int:
    return max((len(tb["ops"]) for gpu in plan["gpus"] for tb in gpu["threadblocks"]), default=0)


def _semaphores(plan: Json) -> int:
    return max((len(gpu["semaphores"]) for gpu in plan["gpus"]), default=0)


def _exceeded_limits(plan: Json, most: int | None) -> list[LimitUse]:
    threadblocks = [tb for gpu in plan["gpus"] for tb in gpu["threadblocks"]]
    channels = max((len(channel["channel_ids"]) for tb in threadblocks for channel in tb["channels"]), default=0)
    refs = (buffers["remote_buffer_ids"] for tb in threadblocks for buffers in tb["remote_buffer_refs"])
    ports = [
        sum(len(channel["connected_to"]) for channel in gpu["channels"] if channel["channel_type"] == "port")
        for gpu in plan["gpus"]
    ]
    hint = "emit msccl, or use fewer chunks if a block has several"
    uses = [
        LimitUse(_LONGEST, _longest(plan), PLAN_OPERATIONS, hint),
        LimitUse(_SEMAPHORES, _semaphores(plan), _semaphores(plan) if most is None else most, hint),
        LimitUse("channels of one threadblock", channels, PLAN_CHANNELS, hint),
        LimitUse("remote buffers of one threadblock", max(map(len, refs), default=0), PLAN_CHANNELS, hint),
        LimitUse("port channels of one GPU", max(ports, default=0), PLAN_PORTS, hint),
        LimitUse(
            "memory regions of one GPU with ports", max(map(_regions, plan["gpus"]), default=0), PLAN_REGIONS, hint
        ),
    ]
    return [excess for excess in uses if excess.needed > excess.limit]


def _regions(gpu: Json) -> int:
    """The memory that the proxy of a GPU must know: its own buffers, and those of others that it puts to."""
    return 3 + sum("port" in buffer["access_channel_types"] for buffer in gpu["remote_buffers"])


def _plan(program: Program, options: MscclOptions, node: Sequence[int]) -> Json:
    inputs = max((gpu.input_chunks for gpu in program.gpus), default=0)
    outputs = max((gpu.output_chunks for gpu in program.gpus), default=0)
    if options.protocol is Protocol.LL:
        routes = packet_routes_of(program, node)
        write = partial(packet_threadblock, routes)
        made = [gpu.as_json(inputs, outputs, write) for gpu in gpu_plans(program, routes)]
        # A GPU writes to the second scratch buffers of others where its own begins.
        most = max((gpu["scratch_chunks"] for gpu in made), default=0)
        gpus = [gpu | {"scratch_chunks": most} for gpu in made]
    else:
        routes = routes_of(program, node, options.same_offsets)
        gpus = [gpu.as_json(inputs, outputs) for gpu in gpu_plans(program, routes)]
    buffers = (
        4 if options.protocol is Protocol.LL else 1
    )  # packets take twice as much, and there are two buffers of them
    low, high = _sizes(program, options, [inputs, outputs, *(gpu["scratch_chunks"] * buffers for gpu in gpus)])
    return {
        "name": program.name.replace(" ", "_"),
        "collective": program.collective.coll,
        "inplace": options.placement is Placement.IN,
        "protocol": options.protocol.value,
        **({"use_double_scratch_buffer": True} if options.protocol is Protocol.LL else {}),
        "buffer_alignment": 16,
        "min_message_size": low,
        "max_message_size": high,
        "gpus": gpus,
    }


def _sizes(program: Program, options: MscclOptions, chunks: list[int]) -> tuple[int, int]:
    """Smallest and largest size in bytes of the buffer that the runtime compares: the input, or an All-Gather's output.

    chunks: of input, output and the scratch of each GPU. Offsets have 32 bits, so the longest buffer must be shorter
    than 4 GiB. Raises SourceError M0111 if no size is left, M0113 if the smallest is 2 GiB or more.
    """
    kind, ranks = program.collective.kind, len(program.gpus)
    low = smallest_message(kind, ranks, options)
    most = PLAN_PACKETS if options.sizes[1] is None and options.protocol is Protocol.LL else options.sizes[1]
    high = None if most is None else most * (ranks if kind == "scatter" else 1)
    counted = max(1, chunks[1] if kind == "all_gather" else chunks[0])
    largest = _OFFSETS * counted // max(1, *chunks)
    if low > largest:
        hint = "use fewer chunks, smaller 'sizes', or emit msccl"
        raise LimitUse("bytes in its longest buffer", low * max(chunks) // counted, _OFFSETS, hint).error(_NAME)
    return low, largest if high is None else min(high, largest)
