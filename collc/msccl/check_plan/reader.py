"""From JSON to a plan: the shape of the file, its references, and the limits of the runtime.

The rules are those of docs/msccl-contract.md, section 6.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from collc.base.diagnostics import CheckFailed
from collc.msccl.check.findings import FileLocation, Finding, Findings, errors_of, unreadable_file
from collc.msccl.check_plan.json_text import (
    ALL_CHANNEL_TYPES,
    BUFFERS,
    CHANNEL_TYPES,
    Fields,
    PlanError,
    is_number,
    item_at,
    json_of,
    locate,
)
from collc.msccl.check_plan.model import Channel, Nodes, Plan, RemoteBuffer, SwitchChannel
from collc.msccl.check_plan.operations import OperationReader, References
from collc.msccl.check_plan.rules import RULES

MAX_OPS: Final = 64
MAX_CHANNELS: Final = 16
MAX_BUFFERS: Final = 16
MAX_THREADS: Final = 1024
MIN_THREADS: Final = 32
"""Threads of a warp: operations of the runtime are those of whole warps."""
MAX_CHUNKS: Final = 2**24
"""Chunks in all buffers; a limit of the check, not of the runtime."""


def read_plan(path: Path, findings: Findings) -> Plan:
    """The plan of a file.

    Raises UsageError if it can't be opened, CheckFailed with all mistakes if it can't be understood.
    """
    plan = parse_plan(path, findings)
    if plan is None:
        locate(findings, path)
        raise CheckFailed(*errors_of(findings, path))
    return plan


def parse_plan(path: Path, findings: Findings, nodes: Nodes | None = None) -> Plan | None:
    """The plan of a file, or None, with findings, if it can't be understood.

    nodes: of the ranks, None if they are not known. Raises UsageError if the file can't be opened, or if the nodes do
    not fit its ranks.
    """
    try:
        return plan_of_values(json_of(path, findings), findings, nodes)
    except PlanError as error:
        findings.add(error.finding, breaks=True)
    except OSError as error:
        raise unreadable_file(path, error) from error
    return None


def plan_of_values(values: object, findings: Findings, nodes: Nodes | None = None) -> Plan:
    """The plan with these values of its JSON; what breaks `RULES` is added to the findings.

    Raises PlanError if it can't be understood, UsageError if the nodes do not fit its ranks.
    """
    plan = _PlanReader(findings).read(values)
    plan.nodes = nodes
    for rule in RULES:
        rule(plan, findings)
    return plan


class _PlanReader:
    def __init__(self, findings: Findings) -> None:
        self.findings: Findings = findings
        self.plan: Plan = Plan("", "", "", False, [], [], [], [])
        self.operations: OperationReader = OperationReader(self.plan, findings)

    def read(self, value: object) -> Plan:
        """The whole plan. Raises PlanError if it cannot be understood."""
        root = Fields.of(value, "the plan", FileLocation())
        gpus = [Fields(gpu.values, FileLocation(gpu=rank)) for rank, gpu in enumerate(root.objects("gpus", "gpu"))]
        if not gpus:
            raise root.error("a plan without gpus", "at least one", "gpus")
        for rank, gpu in enumerate(gpus):
            if gpu.number("id") != rank:
                raise gpu.error(f"the gpu at position {rank} has another id", f"id {rank}")
        self._header(root)
        for rank, gpu in enumerate(gpus):
            self._gpu(gpu, rank, len(gpus))
        chunks = sum(map(sum, self.plan.chunks))
        if chunks > MAX_CHUNKS:
            raise root.error(f"{chunks} chunks in all buffers", f"at most {MAX_CHUNKS} to be checked", code="X0406")
        for rank, gpu in enumerate(gpus):
            for number, entry in enumerate(gpu.objects("threadblocks", "threadblock")):
                self._threadblock(Fields(entry.values, FileLocation(gpu=rank, tb=number)), rank, number)
        return self.plan

    def _header(self, root: Fields) -> None:
        """Names, the range of sizes, and settings that a plan may leave out."""
        plan = self.plan
        plan.inplace = root.flag("inplace")
        plan.protocol = root.choice("protocol", ("Simple", "LL"))
        plan.name, plan.collective = root.text("name"), root.text("collective")
        if root.values.get("max_message_size") is not None:
            plan.largest = root.number("max_message_size", 2**64)
        if root.values.get("min_message_size") is not None:
            smallest, location = root.number("min_message_size", 2**64), FileLocation(attribute="min_message_size")
            if plan.largest is not None and smallest > plan.largest:
                text, rule = "min_message_size is above max_message_size", f"at most {plan.largest}"
                raise PlanError("X0402", text, location, rule)
            if smallest >= 2**31:
                text = f"min_message_size is {smallest}, which the runtime reads as a signed number of 32 bits"
                self.findings.add(Finding("contract", "X0402", text, location, "less than 2 GiB (2147483648)"))
        plan.reused = root.flag("reuse_resources", default=False)
        plan.doubled = root.flag("use_double_scratch_buffer", default=False)
        for name in ("num_threads_per_block", "buffer_alignment"):
            if name in root.values and root.number(name) < 1:
                raise root.error(f"{name} is 0", "at least 1", name)
        threads = root.values.get("num_threads_per_block", MAX_THREADS)
        location = FileLocation(attribute="num_threads_per_block")
        self.operations.limit(threads, MAX_THREADS, "threads of a threadblock", location)
        if threads < MIN_THREADS:
            text = f"{threads} threads of a threadblock are less than a warp"
            self.findings.add(Finding("contract", "X0406", text, location, f"{MIN_THREADS} to {MAX_THREADS}"))

    def _gpu(self, gpu: Fields, rank: int, ranks: int) -> None:
        """A gpu without its threadblocks: buffers, semaphores, channels numbered by type, remote buffers."""
        plan, location = self.plan, gpu.location
        inputs, outputs, scratch = (gpu.number(f"{name}_chunks") for name in ("input", "output", "scratch"))
        for name, count in (("input_chunks", inputs), ("output_chunks", outputs)):
            if not count:
                text = f"{name} is 0: the runtime divides by it and ends the process"
                finding = Finding("contract", "X0402", text, replace(location, attribute=name), "at least 1")
                self.findings.add(finding, breaks=True)
        plan.chunks.append((inputs, outputs, scratch))
        semaphores = gpu.objects("semaphores", "semaphore", optional=True)
        plan.semaphores.append([semaphore.number("init_value") for semaphore in semaphores])
        channels: dict[str, list[Channel]] = {kind: [] for kind in CHANNEL_TYPES}
        counts: Counter[tuple[str, int]] = Counter()
        plan.switches.append([])
        for item in gpu.objects("channels", "channel"):
            kind = item.choice("channel_type", ALL_CHANNEL_TYPES)
            if kind == "switch":
                plan.switches[-1] += _switch_channels_of(item, ranks)
                continue
            for peer in item.items("connected_to"):
                if not is_number(peer) or not 0 <= peer < ranks or peer == rank:
                    raise item.error(f"channel to {peer}", f"another rank of 0 .. {ranks - 1}", code="X0403")
                channels[kind].append((kind, rank, peer, counts[kind, peer]))
                counts[kind, peer] += 1
        plan.channels.append(channels)
        remote: list[RemoteBuffer] = []
        for item in gpu.objects("remote_buffers", "remote buffer", optional=True):
            owner = item.number("rank")
            if not 0 <= owner < ranks:
                raise item.error(f"remote buffer of rank {owner}", f"0 .. {ranks - 1}", code="X0403")
            kinds = tuple(map(str, item.items("access_channel_types")))
            remote.append((owner, BUFFERS.index(item.choice("type", BUFFERS)), kinds))
        plan.remote.append(remote)

    def _threadblock(self, entry: Fields, gpu: int, tb: int) -> None:
        if entry.number("id") != tb:
            raise entry.error("threadblock ids are not 0, 1, ... in order", f"id {tb}")
        references, limit, location = self._references(entry, gpu), self.operations.limit, entry.location
        for kind in CHANNEL_TYPES:
            limit(len(references.channels[kind]), MAX_CHANNELS, f"{kind} channels of a threadblock", location)
            count = len(references.buffers[kind])
            limit(count, MAX_BUFFERS, f"remote buffers of a threadblock for {kind} channels", location)
        limit(len(references.switches), MAX_CHANNELS, "switch channels of a threadblock", location)
        items = entry.items("ops")
        limit(len(items), MAX_OPS, "operations of a threadblock", location)
        plan, row = self.plan, len(self.plan.threadblocks)
        plan.gpu_of.append(gpu)
        plan.threadblocks.append([])
        for number, item in enumerate(items):
            fields = Fields.of(item, "operation", FileLocation(gpu=gpu, tb=tb, step=number))
            plan.threadblocks[row].append(self.operations.read(fields, row, references))

    def _references(self, entry: Fields, gpu: int) -> References:
        """The channels and remote buffers of a threadblock, which its operations index."""
        plan, location, references = self.plan, entry.location, References()
        for group in entry.objects("channels", "channels"):
            kind = group.choice("channel_type", ALL_CHANNEL_TYPES)
            for number in group.items("channel_ids"):
                if kind == "switch":
                    references.switches.append(item_at(plan.switches[gpu], number, "switch channel", location))
                else:
                    channel = item_at(plan.channels[gpu][kind], number, f"{kind} channel", location)
                    references.channels[kind].append(channel)
        for group in entry.objects("remote_buffer_refs", "remote buffer reference", optional=True):
            kind = group.choice("access_channel_type", CHANNEL_TYPES)
            for number in group.items("remote_buffer_ids"):
                owner, buffer, kinds = item_at(plan.remote[gpu], number, "remote buffer", location)
                if kind not in kinds:
                    raise group.error(f"remote buffer {number} is not for {kind} channels", code="X0403")
                references.buffers[kind].append((owner, buffer))
        return references


def _switch_channels_of(item: Fields, ranks: int) -> list[SwitchChannel]:
    """The switch channels of an entry of a gpu's channels, one for each group (X0402, X0403)."""
    buffer, gpu = BUFFERS.index(item.choice("buffer_type", BUFFERS)), item.location.gpu
    channels: list[SwitchChannel] = []
    for group in item.objects("rank_groups", "rank group"):
        members = group.items("ranks")
        if not members or not all(is_number(rank) and 0 <= cast("int", rank) < ranks for rank in members):
            raise group.error(f"rank group {str(members)[:40]}", f"ranks of 0 .. {ranks - 1}", code="X0403")
        if len(set(members)) < len(members) or gpu not in members:
            text = f"rank group {str(members)[:40]} has a rank twice, or lacks gpu {gpu} itself"
            raise group.error(text, "each of its ranks once, its own rank included", code="X0403")
        if group.number("size") != len(members):
            raise group.error("size of a rank group is not the number of its ranks", f"{len(members)}")
        channels.append(SwitchChannel(buffer, tuple(members)))
    return channels
