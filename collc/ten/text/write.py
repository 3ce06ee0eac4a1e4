"""Writes TEN modules in text form (docs/ten.md; the grammar is grammar/ten.lark)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final, TextIO

import numpy as np

from collc.base.units import format_bytes
from collc.ten.arrays import Int32Array
from collc.ten.demand import ChunkTable, Demand, Op, Run
from collc.ten.endpoint import Endpoint
from collc.ten.module import Module
from collc.ten.network import DeviceFamily, Network
from collc.ten.schedule import Schedule, StepSchedule, Transfers
from collc.ten.text.names import (
    chunk_labels,
    device_labels,
    network_link_labels,
    numbers_text,
    quote,
    rate_text,
    time_text,
    unique,
    with_index,
    word,
)

VERSION = 1
"""The version of the text form."""

_BLOCK: Final = 1 << 16
"""Lines that are written at once."""


def format_module(module: Module) -> str:
    """The text of a module, from which `parse_module` reads an equal module."""
    file = io.StringIO()
    write_module(module, file)
    return file.getvalue()


def write_module(module: Module, file: TextIO) -> None:
    """Write the text of a module piece by piece; only the labels of its chunks and links are all in memory at once."""
    file.write(f"ten {VERSION}\n")
    file.writelines(_module(module, ""))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array in row-major order: the last index varies fastest."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def _module(module: Module, pad: str) -> Iterator[str]:
    yield f"{pad}module {quote(module.name)}\n{pad}model {module.model.value}\n"
    if module.algorithm:
        yield f"{pad}algorithm {quote(module.algorithm)}\n"
    if module.seed is not None:
        yield f"{pad}seed {module.seed}\n"
    if module.bound is not None:
        yield f"{pad}bound {time_text(module.bound.time)} {quote(module.bound.name)}\n"
    for note in module.notes:
        yield f"{pad}note {quote(note)}\n"
    if module.planned is not None:
        yield f"{pad}planned {{{numbers_text(sorted(module.planned))}}}\n"
    yield from _network(module.network, pad)
    yield from _demand(module.demand, pad)
    if module.schedule is not None:
        yield from _schedule(module.schedule, module, pad)
    for phase in module.phases:
        start = f"at {time_text(phase.start)} " if phase.start else ""
        yield f"\n{pad}phase {'inverted ' if phase.inverted else ''}{start}{{\n"
        yield from _module(phase.module, pad + "    ")
        yield f"{pad}}}\n"


def _network(network: Network, pad: str) -> Iterator[str]:
    inner = pad + "    "
    yield f"\n{pad}network {quote(network.name)} {'unwound ' if network.unwound else ''}{{\n"
    yield f"{inner}npus {network.npu_count}\n{inner}switches {network.switch_count}\n"
    for family in network.families:
        yield f"{inner}names {_family(family)}\n"
    removed = np.flatnonzero(~network.present).tolist()
    if removed:
        yield f"{inner}removed {{{numbers_text(removed)}}}\n"
    yield from _switches(network, inner)
    yield from _limits(network, inner)
    for axis in network.axes:
        yield f"{inner}axis {word(axis.kind)} {axis.size}\n"
    for number, kind in enumerate(network.kinds):
        latency = "unknown" if kind.latency is None else time_text(kind.latency)
        bandwidth = "unknown" if kind.bandwidth is None else rate_text(kind.bandwidth)
        overhead = f" overhead {time_text(kind.overhead)}" if kind.overhead else ""
        yield f"{inner}kind {number} latency {latency} bandwidth {bandwidth}{overhead}\n"
    names = device_labels(network.families, network.device_count)
    axes: list[int] = network.link_axis.tolist() if len(network.link_axis) else [-1] * network.link_count
    rows = zip(network.source.tolist(), network.target.tolist(), network.kind.tolist(), axes, strict=True)
    for source, target, kind, axis in rows:
        axis_text = f" axis {axis}" if axis >= 0 else ""
        yield f"{inner}link {names[source]} -> {names[target]} kind {kind}{axis_text}\n"
    yield f"{pad}}}\n"


def _family(family: DeviceFamily) -> str:
    text = f"{with_index(family.name, family.shape)} from {family.first}"
    if family.strides != row_major(family.shape):
        text += f" strides [{', '.join(map(str, family.strides))}]"
    if family.labels:
        text += f" labels [{', '.join(map(quote, family.labels))}]"
    return text


def _switches(network: Network, pad: str) -> Iterator[str]:
    """One line for each group of switches with equal options; none for switches without options."""
    shared: dict[tuple[int, bool, bool], list[int]] = {}
    rows = zip(network.buffers.tolist(), network.multicast.tolist(), network.reduces.tolist(), strict=True)
    for number, options in enumerate(rows):
        shared.setdefault(options, []).append(network.npu_count + number)
    for (buffer, multicast, reduces), numbers in shared.items():
        text = f" buffer {buffer}" if buffer >= 0 else ""
        text += " multicast" if multicast else ""
        text += " reduces" if reduces else ""
        if text:
            yield f"{pad}options {{{numbers_text(numbers)}}}{text}\n"


def _limits(network: Network, pad: str) -> Iterator[str]:
    """One line for each group of NPUs with equal limits; none for NPUs without limits."""
    for row, kind in enumerate(network.endpoint_kinds):
        numbers: list[int] = np.flatnonzero(network.endpoint == row).tolist()
        if numbers and kind != Endpoint():
            rates = (("inject", kind.inject), ("eject", kind.eject), ("memory", kind.memory))
            text = "".join(f" {name} {rate_text(rate)}" for name, rate in rates if rate is not None)
            text += f" endpoint {kind.mode}" if kind.memory is not None else ""
            text += f" traffic {kind.traffic.numerator} for {kind.traffic.denominator}" if kind.traffic else ""
            times = (("overhead", kind.overhead), ("launch", kind.launch))
            text += "".join(f" {name} {time_text(time)}" for name, time in times if time)
            yield f"{pad}limits {{{numbers_text(numbers)}}}{text}\n"


def _demand(demand: Demand, pad: str) -> Iterator[str]:
    yield f"\n{pad}demand {{\n"
    for run, table in zip(demand.runs, demand.tables, strict=True):
        yield f"{pad}    run {word(run.collective)} group [{numbers_text(run.group.tolist())}]{_standard(run)} {{\n"
        yield from _table(table, pad + "        ")
        yield f"{pad}    }}\n"
    yield f"{pad}}}\n"


def _standard(run: Run) -> str:
    if run.standard is None:
        return ""
    s = run.standard
    text = f" standard {word(s.kind)} {format_bytes(s.size)} chunks {s.chunks}"
    text += f" root {s.root}" if s.root >= 0 else ""
    return text + (f" op {s.op.name.lower()}" if s.op is not Op.COPY else "")


def _table(table: ChunkTable, pad: str) -> Iterator[str]:
    for number in range(len(table.sets)):
        yield f"{pad}set @{number} = {{{numbers_text(table.sets[number].tolist())}}}\n"
    for family in table.families:
        yield f"{pad}family {word(family.name)} {family.rank}\n"
    names = unique([f"{word(family.name)} {family.rank}" for family in table.families])
    names = [name if name.startswith("%") else name.rpartition(" ")[0] for name in names]
    sizes = {size: format_bytes(size) for size in np.unique(table.size).tolist()}
    ops = ["" if op is Op.COPY else f"{op.name.lower()} " for op in Op]
    for low in range(0, len(table), _BLOCK):
        block = slice(low, low + _BLOCK)
        columns = (table.family, table.size, table.pre, table.op, table.post)
        rows = zip(_indices(table, block), *(column[block].tolist() for column in columns), strict=True)
        yield "".join(
            f"{pad}chunk {names[family]}{at} {sizes[size]} pre @{pre} post {ops[op]}@{post}\n"
            for at, family, size, pre, op, post in rows
        )


def _indices(table: ChunkTable, part: slice) -> list[str]:
    """The indices of some chunks, as `[1, 2]`, or "" if the family has none."""
    ranks = np.array([family.rank for family in table.families], np.int64)[table.family[part]]
    texts = [""] * len(ranks)
    for rank in np.unique(ranks).tolist():
        rows = np.flatnonzero(ranks == rank)
        form = f"[{', '.join(['%d'] * rank)}]"
        indices = [form % index for index in map(tuple, table.index[part][rows, :rank].tolist())] if rank else []
        for row, text in zip(rows.tolist(), indices, strict=False):
            texts[row] = text
    return texts


def _schedule(schedule: Schedule, module: Module, pad: str) -> Iterator[str]:
    if isinstance(schedule, StepSchedule):
        table = schedule.chunk
        layout = f"steps {len(table)} of {time_text(schedule.step)} as {table.dtype.name}"
        layout += f" reduce {schedule.reduce_steps}" if schedule.reduce_steps else ""
        yield f"\n{pad}schedule {schedule.model.value} {layout} {{\n"
        yield from _transfers(schedule, module, pad + "    ", schedule.step)
    else:
        yield f"\n{pad}schedule {schedule.model.value} rows {{\n"
        yield from _transfers(schedule, module, pad + "    ", None)
    yield f"{pad}}}\n"


def _transfers(schedule: Schedule, module: Module, pad: str, step: int | None) -> Iterator[str]:
    """The transfers of a schedule under `at` lines, or `step` lines. step: picoseconds, None for rows."""
    chunks, links = chunk_labels(module.demand), network_link_labels(module.network)
    last: int | None = None
    for block in schedule.blocks(_BLOCK):
        if not len(block):
            continue
        starts = block.start if step is None else _step_numbers(block, step, schedule)
        changes = np.flatnonzero(np.diff(starts)) + 1
        firsts = [*([0] if last != int(starts[0]) else []), *changes.tolist()]
        heads = [""] * len(block)
        for row, start in zip(firsts, starts[firsts].tolist(), strict=True):
            heads[row] = f"{pad}at {time_text(start)}\n" if step is None else f"{pad}step {start}\n"
        last = int(starts[-1])
        lines = _rows(block, chunks, links)
        yield "".join([f"{head}{pad}    {line}\n" for head, line in zip(heads, lines, strict=True)])


def _step_numbers(block: Transfers, step: int, schedule: Schedule) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if step <= 0:
        raise ValueError(f"the step of a schedule must be positive, not {step} ps ({schedule.model.value})")
    return block.start // step


def _rows(part: Transfers, chunks: list[str], links: list[str]) -> list[str]:
    """The lines of some transfers."""
    chunk_column: list[int] = part.chunk.tolist()
    link_column: list[int] = part.link.tolist()
    verbs = ["reduce" if reduce else "send" for reduce in part.reduce.tolist()]
    for row in np.flatnonzero(part.keeps & part.reduce).tolist():
        verbs[row] = "keep"
    rows = zip(verbs, chunk_column, link_column, strict=True)
    if _all_within(part.chunk, len(chunks)) and _all_within(part.link, len(links)):
        lines = [f"{verb} {chunks[chunk]} over {links[link]}" for verb, chunk, link in rows]
    else:
        lines = [f"{verb} {_label(chunk, chunks)} over {_label(link, links)}" for verb, chunk, link in rows]
    for row, link in enumerate([] if part.relayed is None else part.relayed.tolist()):
        lines[row] += f" from {_label(link, links)}" if link >= 0 else ""
    if part.messages is not None:
        messages = part.messages
        columns = messages.number, messages.ready, messages.injected, messages.last_received, part.start
        queued = zip(*(column.tolist() for column in columns), strict=True)
        for row, (number, ready, injected, received, start) in enumerate(queued):
            lines[row] += f" message {number}" if number >= 0 else ""
            lines[row] += f" ready {time_text(ready)}" if number >= 0 and ready != start else ""
            lines[row] += f" injected {time_text(injected)}" if number >= 0 and injected != start else ""
            lines[row] += f" received {time_text(received)}" if number >= 0 and received >= 0 else ""
    return lines


def _all_within(numbers: Int32Array, count: int) -> bool:
    return len(numbers) == 0 or (int(numbers.min()) >= 0 and int(numbers.max()) < count)


def _label(number: int, labels: list[str]) -> str:
    return labels[number] if 0 <= number < len(labels) else f"%{number}"
