"""Names of links into sets of devices: nodes, copies, slices, single devices."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from collc.synthesis.bounds import set_names
from collc.synthesis.bounds.set_names import name_of_links_between, name_of_links_into
from collc.ten.network import DeviceFamily, LinkKind, Network
from collc.ten.transform import remove_parts
from tests.support import grid, network

KIND = LinkKind(1000, Fraction(10**9))


def cluster(uplinks: bool) -> Network:
    """Three nodes of four GPUs with a switch each, joined by a spine: over NICs, or over the nodes' switches."""
    links = []
    for npu in range(12):
        links += [(npu, 12 + npu // 4, KIND), (12 + npu // 4, npu, KIND)]
    for up in range(12, 15) if uplinks else range(12):
        links += [(up, 15, KIND), (15, up, KIND)]
    return network(12, links, switches=4, shape=(3, 4))


def into(net: Network, *devices: int) -> str:
    inside = np.zeros(net.device_count, np.bool_)
    inside[list(devices)] = True
    return name_of_links_into(net, inside)


def test_nodes_have_nics_or_links() -> None:
    nics, uplinks = cluster(uplinks=False), cluster(uplinks=True)
    assert into(nics, 4, 5, 6, 7, 13) == "the NICs of node 1"
    assert into(nics, *range(4), *range(8, 13), 14, 15) == "the NICs of node 1"
    assert into(uplinks, 4, 5, 6, 7, 13) == "the links into node 1 (npu[1, *], switch[1])"
    assert into(uplinks, *range(4), *range(8, 13), 14, 15) == "the links out of node 1 (npu[1, *], switch[1])"
    assert into(uplinks, 4, 5, 6, 7) == "the links into node 1 (npu[1, *])"


def test_parts_of_arrays_are_slices() -> None:
    net = cluster(uplinks=False)
    assert into(net, 1, 5, 9) == "the links into npu[*, 1]"
    assert into(net, 5, 6) == "the links into npu[1, 1..3]"
    assert into(grid(4, 4), *range(8)) == "the links into npu[0..2, *]"
    assert into(grid(4, 4), *range(4)) == "the links into npu[0, *]"


def test_removed_npus_do_not_change_the_name_of_a_node() -> None:
    for gone in (4, 6, 7):  # the first, one between, the last of node 1
        hurt = remove_parts(cluster(uplinks=False), [gone], np.zeros(0, np.int64))
        left = [npu for npu in (4, 5, 6, 7) if npu != gone]
        assert into(hurt, *left, 13) == "the NICs of node 1"
        parts = name_of_links_between(hurt, hurt.npus, [npu // 4 for npu in hurt.npus.tolist()])
        assert parts == "the links between the 3 nodes"
    column = remove_parts(cluster(uplinks=False), [1], np.zeros(0, np.int64))
    assert into(column, 5, 9) == "the links into npu[*, 1]"
    few = remove_parts(cluster(uplinks=False), [0, 2], np.zeros(0, np.int64))
    assert into(few, 1, 3) == "the links into {npu[0, 1], npu[0, 3]}"


def test_single_devices_and_lists() -> None:
    net = cluster(uplinks=False)
    assert into(net, 5) == "the links into npu[1, 1]"
    assert into(net, *(d for d in range(16) if d != 5)) == "the links out of npu[1, 1]"
    assert into(net, 0, 5) == "the links into {npu[0, 0], npu[1, 1]}"
    named = ", ".join(f"npu[0, {i}]" for i in (0, 1, 2, 3, 5, 6, 8, 9))
    wide = replace(grid(1, 24), name="wide")
    assert into(wide, 0, 1, 2, 3, 5, 6, 8, 9, 11, 12) == f"the links into {{{named} and 2 more}}"
    assert into(net, 12) == "the links into switch[0]"
    assert into(net, *range(12), 13, 14, 15) == "the links out of switch[0]"


def test_copies_have_their_names() -> None:
    names = ("node[0].gpu", "node[1].gpu", "node[0].cpu", "node[1].cpu")
    families = [DeviceFamily(name, (3,), 3 * number, (1,)) for number, name in enumerate(names)]
    net = replace(cluster(uplinks=False), families=(*families, DeviceFamily("switch", (4,), 12, (1,))))
    assert into(net, 0, 1, 2, 6, 7, 8) == "the links into node[0]"
    assert into(net, 0, 1, 2) == "the links into node[0].gpu[*]"


def test_partitions_are_of_npus_nodes_or_parts() -> None:
    net = cluster(uplinks=False)
    group = np.arange(12, dtype=np.int32)
    assert name_of_links_between(net, group, list(range(12))) == "the links between all NPUs"
    assert name_of_links_between(net, group, [npu // 4 for npu in range(12)]) == "the links between the 3 nodes"
    weak = "the links between npu[2, 3] and all other NPUs"
    assert name_of_links_between(net, group, [0] * 11 + [1]) == weak
    some = "the links between 3 parts of the NPUs, such as npu[2, 3]"
    assert name_of_links_between(net, group, [0] * 5 + [1] * 6 + [2]) == some


def test_rows_that_only_switches_join_are_nodes_as_each_by_itself_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick answer for all parts at once, against that for one after another."""
    net = cluster(uplinks=False)
    joined = replace(
        net, source=np.append(net.source, 0).astype(np.int32), target=np.append(net.target, 5).astype(np.int32)
    )
    joined = replace(joined, kind=np.append(net.kind, 0).astype(np.int32))
    gone = [remove_parts(net, list(some), np.zeros(0, np.int64)) for some in ((4,), (1, 2), (1, 2, 3))]
    names = set[str]()
    for each in (net, joined, *gone, grid(3, 4)):
        npus = each.npus.astype(np.int64)
        for parts in (npus // 4, npus % 4, npus // 2, np.where(npus == 4, 0, npus // 4)):
            name = name_of_links_between(each, each.npus[::-1], parts[::-1].tolist())
            with monkeypatch.context() as patch:
                patch.setattr(set_names, "_are_nodes", lambda *_: False)
                assert name_of_links_between(each, each.npus[::-1], parts[::-1].tolist()) == name
            names.add(name)
    assert set_names._are_nodes(net, np.arange(12) // 4)
    assert "the links between the 3 nodes" in names
    assert len(names) > 5
