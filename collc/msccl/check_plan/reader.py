"""From JSON to a plan: the shape of the file, its references, and the limits of the runtime.

The rules are those of docs/msccl-contract.md, section 6.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from collc.base.diagnostics import CheckFailed
from collc.msccl.check.findings import FileLocation, Finding, Findings, errors_of, unreadable
from collc.msccl.check_plan.channels import (
    Nodes,
    RemoteBuffer,
    check_groups,
    check_nodes,
    check_pairs,
    check_ports,
    check_synchronisation,
    switch_channels_of,
)
from collc.msccl.check_plan.json_text import (
    BUFFERS,
    CHANNEL_TYPES,
    JsonObject,
    PlanError,
    buffer_of,
    channel_type_of,
    is_number,
    item_at,
    json_of,
    list_of,
    locate,
    number_of,
    object_of,
    optional_list_of,
    text_of,
)
from collc.msccl.check_plan.model import PACKETS, Channel, Operation, Plan
from collc.msccl.check_plan.operations import MAX_SEMAPHORES, OperationReader, References
from collc.msccl.check_plan.packets import check_packets

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
        return _PlanReader(findings, nodes).read(json_of(path, findings))
    except PlanError as error:
        findings.add(error.finding, breaks=True)
    except OSError as error:
        raise unreadable(path, error) from error
    return None


def plan_of_values(values: object, findings: Findings) -> Plan:
    """The same of the values of its JSON. Raises PlanError if it can't be understood."""
    return _PlanReader(findings, None).read(values)


class _PlanReader:
    """Reads one plan. channels: of each gpu by type. remote: the remote buffers of each gpu, with their types."""

    def __init__(self, findings: Findings, nodes: Nodes | None) -> None:
        self.findings: Findings = findings
        self.nodes: Nodes | None = nodes
        self.plan: Plan = Plan("", "", "", False, [], [], [], [])
        self.operations: OperationReader = OperationReader(self.plan, findings)
        self.channels: list[dict[str, list[Channel]]] = []
        self.remote: list[list[RemoteBuffer]] = []

    def read(self, value: object) -> Plan:
        """The whole plan. Raises PlanError if it cannot be understood."""
        root = object_of(value, "the plan", FileLocation())
        gpus = self._gpus_in_order(root)
        self._header(root)
        self._sizes(root)
        self._settings(root)
        for rank, gpu in enumerate(gpus):
            self._gpu(gpu, rank, len(gpus))
        chunks = sum(map(sum, self.plan.chunks))
        if chunks > MAX_CHUNKS:
            text = f"{chunks} chunks in all buffers"
            raise PlanError("X0406", text, FileLocation(), f"at most {MAX_CHUNKS} to be checked")
        for rank, gpu in enumerate(gpus):
            for number, entry in enumerate(list_of(gpu, "threadblocks", FileLocation(gpu=rank))):
                location = FileLocation(gpu=rank, tb=number)
                self._threadblock(object_of(entry, "threadblock", location), location)
        check_pairs(self.plan, self.channels, self.findings)
        check_groups(self.plan, self.findings)
        check_ports(self.channels, self.remote, self.findings)
        if self.nodes is not None:
            check_nodes(self.plan, self.channels, self.remote, self.nodes, self.findings)
        check_packets(self.plan, self.findings)
        check_synchronisation(self.plan, self.findings)
        self._remote_memory(root)
        return self.plan

    def _gpus_in_order(self, root: JsonObject) -> list[JsonObject]:
        gpus = [object_of(gpu, "gpu", FileLocation()) for gpu in list_of(root, "gpus", FileLocation())]
        if not gpus:
            raise PlanError("X0402", "a plan without gpus", FileLocation(attribute="gpus"), "at least one")
        for rank, gpu in enumerate(gpus):
            location = FileLocation(gpu=rank)
            if number_of(gpu, "id", location) != rank:
                raise PlanError("X0402", f"the gpu at position {rank} has another id", location, f"id {rank}")
        return gpus

    def _header(self, root: JsonObject) -> None:
        plan, nowhere = self.plan, FileLocation()
        inplace = root.get("inplace")
        if not isinstance(inplace, bool):
            at = FileLocation(attribute="inplace")
            raise PlanError("X0402", "inplace is missing or not a boolean", at, "true or false")
        plan.inplace = inplace
        plan.protocol = text_of(root, "protocol", nowhere)
        if plan.protocol not in ("Simple", "LL"):
            at = FileLocation(attribute="protocol")
            raise PlanError("X0402", f'protocol "{plan.protocol}"', at, "Simple or LL")
        plan.name, plan.collective = text_of(root, "name", nowhere), text_of(root, "collective", nowhere)

    def _sizes(self, root: JsonObject) -> None:
        """The range of sizes that the plan is for."""
        plan, at = self.plan, FileLocation(attribute="min_message_size")
        if root.get("max_message_size") is not None:
            plan.largest = number_of(root, "max_message_size", FileLocation(), 2**64)
        if root.get("min_message_size") is None:
            return
        smallest = number_of(root, "min_message_size", FileLocation(), 2**64)
        if plan.largest is not None and smallest > plan.largest:
            raise PlanError("X0402", "min_message_size is above max_message_size", at, f"at most {plan.largest}")
        if smallest >= 2**31:
            text = f"min_message_size is {smallest}, which the runtime reads as a signed number of 32 bits"
            self.findings.add(Finding("contract", "X0402", text, at, "less than 2 GiB (2147483648)"))

    def _settings(self, root: JsonObject) -> None:
        """Settings that a plan may leave out."""
        for name in ("reuse_resources", "use_double_scratch_buffer"):
            if not isinstance(root.get(name, False), bool):
                raise PlanError("X0402", f"{name} is not a boolean", FileLocation(attribute=name), "true or false")
        for name in ("num_threads_per_block", "buffer_alignment"):
            if name in root and number_of(root, name, FileLocation()) < 1:
                raise PlanError("X0402", f"{name} is 0", FileLocation(attribute=name), "at least 1")
        threads = root.get("num_threads_per_block", MAX_THREADS)
        at = FileLocation(attribute="num_threads_per_block")
        self.operations.limit(threads, MAX_THREADS, "threads of a threadblock", at)
        if threads < MIN_THREADS:
            text = f"{threads} threads of a threadblock are less than a warp"
            self.findings.add(Finding("contract", "X0406", text, at, f"{MIN_THREADS} to {MAX_THREADS}"))

    def _gpu(self, gpu: JsonObject, rank: int, ranks: int) -> None:
        """A gpu without its threadblocks: buffers, semaphores, channels numbered by type, remote buffers."""
        plan, location = self.plan, FileLocation(gpu=rank)
        names = ("input_chunks", "output_chunks", "scratch_chunks")
        inputs, outputs, scratch = (number_of(gpu, name, location) for name in names)
        for name, count in (("input_chunks", inputs), ("output_chunks", outputs)):
            if not count:
                at = FileLocation(gpu=rank, attribute=name)
                text = f"{name} is 0: the runtime divides by it and ends the process"
                self.findings.add(Finding("contract", "X0402", text, at, "at least 1"), breaks=True)
        plan.chunks.append((inputs, outputs, scratch))
        found = [object_of(entry, "semaphore", location) for entry in optional_list_of(gpu, "semaphores", location)]
        plan.semaphores.append([number_of(entry, "init_value", location) for entry in found])
        self.operations.limit(len(found), MAX_SEMAPHORES, "semaphores of a gpu", location)
        listed: dict[str, list[Channel]] = {kind: [] for kind in CHANNEL_TYPES}
        met: Counter[tuple[str, int]] = Counter()
        plan.switches.append([])
        for entry in list_of(gpu, "channels", location):
            item = object_of(entry, "channel", location)
            kind = channel_type_of(item, "channel_type", location, switch=True)
            if kind == "switch":
                plan.switches[-1] += switch_channels_of(item, ranks, location)
                continue
            for peer in list_of(item, "connected_to", location):
                if not is_number(peer) or not 0 <= peer < ranks or peer == rank:
                    raise PlanError("X0403", f"channel to {peer}", location, f"another rank of 0 .. {ranks - 1}")
                listed[kind].append((kind, rank, peer, met[kind, peer]))
                met[kind, peer] += 1
        self.channels.append(listed)
        remote: list[RemoteBuffer] = []
        for entry in optional_list_of(gpu, "remote_buffers", location):
            item = object_of(entry, "remote buffer", location)
            owner = number_of(item, "rank", location)
            if not 0 <= owner < ranks:
                raise PlanError("X0403", f"remote buffer of rank {owner}", location, f"0 .. {ranks - 1}")
            kinds = tuple(str(kind) for kind in list_of(item, "access_channel_types", location))
            remote.append((owner, buffer_of(item, location), kinds))
        self.remote.append(remote)

    def _threadblock(self, entry: JsonObject, location: FileLocation) -> None:
        if number_of(entry, "id", location) != location.tb:
            raise PlanError("X0402", "threadblock ids are not 0, 1, ... in order", location, f"id {location.tb}")
        references, limit = self._references(entry, location), self.operations.limit
        for kind in CHANNEL_TYPES:
            limit(len(references.channels[kind]), MAX_CHANNELS, f"{kind} channels of a threadblock", location)
            count = len(references.buffers[kind])
            limit(count, MAX_BUFFERS, f"remote buffers of a threadblock for {kind} channels", location)
        limit(len(references.switches), MAX_CHANNELS, "switch channels of a threadblock", location)
        items = list_of(entry, "ops", location)
        limit(len(items), MAX_OPS, "operations of a threadblock", location)
        plan, row = self.plan, len(self.plan.threadblocks)
        plan.gpu_of.append(location.gpu)
        plan.threadblocks.append([])
        for number, item in enumerate(items):
            at = FileLocation(gpu=location.gpu, tb=location.tb, step=number)
            operation = self.operations.read(object_of(item, "operation", at), row, at, references)
            plan.threadblocks[row].append(operation)

    def _references(self, entry: JsonObject, location: FileLocation) -> References:
        """The channels and remote buffers of a threadblock, which its operations index."""
        found = References()
        for item in list_of(entry, "channels", location):
            group = object_of(item, "channels", location)
            kind = channel_type_of(group, "channel_type", location, switch=True)
            if kind == "switch":
                known = self.plan.switches[location.gpu]
                numbers = list_of(group, "channel_ids", location)
                found.switches.extend(item_at(known, number, "switch channel", location) for number in numbers)
                continue
            mine = self.channels[location.gpu][kind]
            for number in list_of(group, "channel_ids", location):
                found.channels[kind].append(item_at(mine, number, f"{kind} channel", location))
        for item in optional_list_of(entry, "remote_buffer_refs", location):
            group = object_of(item, "remote buffer reference", location)
            kind = channel_type_of(group, "access_channel_type", location)
            for number in list_of(group, "remote_buffer_ids", location):
                owner, buffer, kinds = item_at(self.remote[location.gpu], number, "remote buffer", location)
                if kind not in kinds:
                    raise PlanError("X0403", f"remote buffer {number} is not for {kind} channels", location)
                found.buffers[kind].append((owner, buffer))
        return found

    def _remote_memory(self, root: JsonObject) -> None:
        """Settings with which memory of another gpu is not what the plan names (sections 6.4 and 6.5)."""
        doubled = self.plan.doubled = root.get("use_double_scratch_buffer") is True
        reused = root.get("reuse_resources") is True
        scratch = [chunks[BUFFERS["s"]] for chunks in self.plan.chunks]
        for op in (op for ops in self.plan.threadblocks for op in ops):
            touched = [slots for move in op.moves for slots in move.sources + move.targets]
            remote = [slots for slots in touched if slots.remote]
            here = op.location.gpu
            other = next((s.gpu for s in remote if s.buffer == PACKETS and scratch[s.gpu] != scratch[here]), None)
            if doubled and other is not None:
                text = f"use_double_scratch_buffer: the second one begins after {scratch[here]} chunks on gpu {here}, "
                text += f"which writes packets to gpu {other}, and there after {scratch[other]}"
                self._refuse(op, text, "as many scratch chunks on both")
            if doubled and any(slots.buffer == BUFFERS["s"] for slots in (touched if op.via == "port" else remote)):
                text = "use_double_scratch_buffer: every other run, this is not the scratch that its owner uses"
                self._refuse(op, text, "one scratch buffer, or packets (LL)")
            if reused and any(slots.buffer != BUFFERS["s"] for slots in remote):
                self._refuse(op, "reuse_resources: the buffer of another gpu may be that of an earlier call", "scratch")

    def _refuse(self, op: Operation, text: str, expected: str) -> None:
        self.findings.add(Finding("contract", "X0404", text, op.location, expected))
