"""Both ends of a message name both of its slots, so that public verifiers that compare them can read the files.

Read back with Python's XML parser, in the manner of the CPU-side simulator for MSCCL XML files: the k-th send and the
k-th receive on each connection (sender, receiver, channel) are one message.
"""

from __future__ import annotations

from collections import defaultdict
from xml.etree import ElementTree

import pytest

from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions, Placement
from collc.ten.module import Module
from collc.ten.network import Network
from tests import support
from tests.msccl.lowering import by_hand, random_network, ring_all_reduce, scheduled, xml_of

Slot = tuple[str, str]
"""Buffer and offset."""

Labels = tuple[str, Slot, Slot, str]
"""Type, source, destination and count of a step."""

NETWORKS = [
    *(support.ring(n) for n in (2, 3, 4, 5, 8)),
    *(support.ring(n, one_way=True) for n in (3, 6)),
    *(support.grid(*shape) for shape in ((3,), (2, 3), (3, 3), (4, 2))),
    *(support.grid(*shape, wrap=True) for shape in ((3, 3), (4, 4))),
    *(support.hypercube(n) for n in (2, 3, 4)),
    *(support.fully_connected(n) for n in (3, 4, 8)),
    support.dgx1(),
    *(random_network(seed) for seed in range(5)),
]

CASES = [
    (network, collective, chunks)
    for network in NETWORKS
    for collective, chunks in ((support.all_gather, 1), (support.all_gather, 3), (support.all_to_all, 2))
]


def messages(xml: bytes) -> list[tuple[Labels, Labels]]:
    """The steps at both ends of each message."""
    sends: dict[tuple[str, str, str], list[Labels]] = defaultdict(list)
    receives: dict[tuple[str, str, str], list[Labels]] = defaultdict(list)
    for gpu in ElementTree.fromstring(xml):
        for tb in gpu:
            for step in tb:
                at = step.attrib
                labels = (at["type"], (at["srcbuf"], at["srcoff"]), (at["dstbuf"], at["dstoff"]), at["cnt"])
                if at["type"] in ("s", "rcs", "rrs", "rrcs"):
                    sends[gpu.attrib["id"], tb.attrib["send"], tb.attrib["chan"]].append(labels)
                if at["type"] in ("r", "rcs", "rrc", "rrs", "rrcs"):
                    receives[tb.attrib["recv"], gpu.attrib["id"], tb.attrib["chan"]].append(labels)
    assert sends.keys() == receives.keys()
    return [pair for key in sends for pair in zip(sends[key], receives[key], strict=True)]


def assert_slots_agree(xml: bytes) -> None:
    """A step that receives and sends on reads the slot that it stored to, so that slot is at its end of the message."""
    found = messages(xml)
    assert found
    for (sent, source, sent_to, count), (received, received_from, target, taken) in found:
        assert count == taken
        if sent == "s":
            assert sent_to == target
        if received in ("r", "rcs"):
            assert received_from == (source if sent == "s" else sent_to)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("network", "collective", "chunks"),
    CASES,
    ids=lambda value: getattr(value, "name", getattr(value, "__name__", None)),
)
def test_slots_of_messages_agree(network: Network, collective: object, chunks: int) -> None:
    demand = collective([*range(network.npu_count)], chunks=chunks)  # type: ignore[operator]
    options = MscclOptions(placement=Placement.OUT, sizes=(0, 1 << 20))
    assert_slots_agree(xml_of(lower(scheduled(network, demand), options)))


def test_there_are_75_cases() -> None:
    assert len(CASES) == 75


def test_operands_of_sums_stay_local() -> None:
    """The runtimes add what is in the source of `rrc`, `rrs` and `rrcs` on the receiving GPU."""
    found = messages(xml_of(lower(ring_all_reduce(4))))
    sums = [receive for _, receive in found if receive[0].startswith("rr")]
    assert {kind for kind, *_ in sums} == {"rrs", "rrcs"}
    assert all(source[0] == "i" for _, source, _, _ in sums)


def test_a_wrong_label_is_seen() -> None:
    module: Module = by_hand(support.ring(2), support.broadcast([0, 1]), [(0, 0, 1, 0)])
    xml = xml_of(lower(module, MscclOptions(placement=Placement.OUT)))
    assert_slots_agree(xml)
    right = b'type="r" srcbuf="i"'
    assert right in xml
    with pytest.raises(AssertionError):
        assert_slots_agree(xml.replace(right, b'type="r" srcbuf="o"'))
