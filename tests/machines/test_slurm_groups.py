"""Blocks, rings and tori of Slurm: an option says what links their hosts, and the network is that of the library."""

from __future__ import annotations

import contextlib
import random
from itertools import product

import networkx as nx
import pytest

from collc.application.machines.importing import import_machine
from collc.base.diagnostics import CollcError, SourceError, UsageError
from collc.machines.fabrics import neighbours
from collc.machines.loops import loops
from collc.machines.reading import ImportOptions
from tests.machines.formats import links, network_of

NIC = {"nic": "400Gb/s", "nic_latency": "1us"}
BLOCKS = "BlockName=b1 Nodes=gpu[01-18]\nBlockName=b2 Nodes=gpu[19-36]\nBlockSizes=18\n"
RINGS = "RingName=r1 Nodes=gpu[1-4]\nRingName=r2 Nodes=cpu[3,1,2]\n"
YAML = """- topology: halls
  cluster_default: true
  torus3d:
    toruses:
      - {name: hall, dims: {x: 4, y: 3, z: 2}, nodes: "node[01-24]"}
- topology: racks
  block:
    block_sizes: [4, 8]
    blocks:
      - {block: b1, nodes: "gpu[01-04]"}
      - {block: b2, nodes: "gpu[05-08]"}
- topology: rings
  ring:
    rings:
      - {ring: r1, nodes: "gpu[1-4]"}
- topology: plain
  flat: true
"""


REGIONS = """- topology: t
  torus3d:
    toruses:
      - name: t
        dims: {x: 4, y: 2, z: 1}
        regions: [{dims: {x: 2, y: 1, z: 1}, nodes: "a[1-2]"},
          {anchor: {x: 2, y: 0, z: 0}, dims: {x: 2, y: 1, z: 1}, nodes: "a[3-4]"},
          {anchor: {x: 0, y: 1, z: 0}, dims: {x: 4, y: 1, z: 1}, nodes: "b[1-4]"}]
        placements: [{dims: {x: 2, y: 2, z: 1}}]
"""


def run(tmp_path, text, **settings):
    (tmp_path / "file").write_text(text)
    return import_machine(ImportOptions((tmp_path / "file",), **settings))


def network(tmp_path, text, **settings):
    return network_of(run(tmp_path, text, **settings), "pod", tmp_path)


def std(tmp_path, expression):
    return network_of(f"import std.topologies\nimport std.clusters\ntopology pod = {expression}\n", "pod", tmp_path)


@pytest.mark.parametrize("hosts", [2, 3, 4, 9])
def test_a_ring_is_the_ring_of_the_library(tmp_path, hosts):
    found = network(tmp_path, f"RingName=r Nodes=a[1-{hosts}]\n", gpus_per_node=1, definitions=NIC)
    assert links(found) == links(std(tmp_path, f"ring({hosts}, 400Gb/s, 1us)"))


@pytest.mark.parametrize("sizes", [(4, 3, 2), (4, 4, 4), (2, 2, 2), (1, 5, 1), (3, 1, 2)])
def test_a_torus_is_the_torus_of_the_library(tmp_path, sizes):
    x, y, z = sizes
    text = YAML.replace("{x: 4, y: 3, z: 2}", f"{{x: {x}, y: {y}, z: {z}}}").replace("[01-24]", f"[01-{x * y * z}]")
    found = network(tmp_path, text, gpus_per_node=1, definitions=NIC)
    wanted = nx.MultiDiGraph()  # written anew, from the definition of a torus
    for n in range(x * y * z):
        place = (n % x, n // x % y, n // x // y)
        for axis, size in enumerate(sizes):
            for step in {1, size - 1} - {0} if size > 2 else {1} if size == 2 else set():
                other = list(place)
                other[axis] = (place[axis] + step) % size
                wanted.add_edge(n, other[0] + x * other[1] + x * y * other[2])
    assert sorted((a, b) for a, b, *_ in links(found).elements()) == sorted(wanted.edges())
    if min(sizes) > 1:
        assert links(found) == links(std(tmp_path, f"torus3d({x}, {y}, {z}, 400Gb/s, 1us)"))


def test_regions_of_a_torus(tmp_path):
    """As Slurm reads them: boxes of hosts from an anchor on, x fastest; places without a host have no cables."""
    whole = REGIONS.partition("        regions")[0] + '        nodes: "a[1-4],b[1-4]"\n'
    program = run(tmp_path, REGIONS, gpus_per_node=1, definitions=NIC)
    assert "placements" in program  # as dropped
    found = network_of(program, "pod", tmp_path)
    assert links(found) == links(network(tmp_path, whole, gpus_per_node=1, definitions=NIC))
    assert found.real_name(4).startswith("b1")
    holes = REGIONS.replace("x: 4, y: 1, z: 1}", "x: 3, y: 1, z: 1}").replace("b[1-4]", "b[1-3]")
    found = network(tmp_path, holes, gpus_per_node=1, definitions=NIC)
    assert found.npu_count == 7
    cables = {(a, b) for a, b, *_ in links(found) if a < b}
    assert cables == {(0, 1), (1, 2), (2, 3), (0, 3), (4, 5), (5, 6), (0, 4), (1, 5), (2, 6)}


def test_a_torus_is_a_loop_for_each_dimension(tmp_path):
    text = YAML.replace("{x: 4, y: 3, z: 2}", "{x: 4, y: 4, z: 4}").replace("[01-24]", "[01-64]")
    rates = {"nvlink": "450GB/s", "nic": "400Gb/s", "nic_latency": "1us"}
    program = run(tmp_path, text, gpus_per_node=2, definitions=rates, joined_by="nic")
    assert "i // 16 * 16 + (i + 4) % 16" in program
    assert len(program.splitlines()) < 50
    found = network_of(program, "pod", tmp_path)
    cables = sorted((a, b) for a, b, rate, _ in links(found).elements() if rate == 50 * 10**9)
    torus = links(std(tmp_path, "torus3d(4, 4, 4, 400Gb/s, 1us)")).elements()
    assert cables == sorted((2 * a + k, 2 * b + k) for a, b, *_ in torus for k in range(2))


@pytest.mark.parametrize("sizes", [(5,), (4, 3), (2, 2), (2, 3, 4), (3, 2, 2), (8, 4, 2)])
def test_loops_of_a_torus_yield_its_links(sizes):
    """Evaluated as Python, whose // and % are those of the language for numbers of at least 0."""
    pairs = [((a, k), (b, k)) for a, b in neighbours(sizes) for k in range(2)]
    found = loops(pairs)
    assert found is not None
    assert len(found) <= max(len(sizes), 2)
    assert evaluated(found) == sorted(pairs)
    for damaged in (pairs[1:], [*pairs, ((0, 0), (0, 1))]):
        found = loops(damaged)
        assert found is None or evaluated(found) == sorted(damaged)


def evaluated(found):
    made = []
    for loop in found:
        names = [name for name, _ in loop.ranges]
        for values in product(*(range(*map(int, values.split(".."))) for _, values in loop.ranges)):
            place = dict(zip(names, values, strict=True))
            if not loop.condition or eval(loop.condition, dict(place)):
                made.append(tuple(tuple(eval(text, dict(place)) for text in end) for end in (loop.source, loop.target)))
    return sorted(made)


def test_hosts_of_several_gpus_ask_what_is_cabled(tmp_path):
    rates = {"nvlink": "450GB/s", "nic": "400Gb/s", "nic_latency": "1us"}
    with pytest.raises(UsageError, match="which hosts are neighbours, not what links them") as caught:
        run(tmp_path, YAML, part="rings", gpus_per_node=2, definitions=rates)
    assert "--joined-by nic" in caught.value.diagnostics[0].hint
    found = network(tmp_path, YAML, part="rings", gpus_per_node=2, definitions=rates, joined_by="nic")
    cables = [(a, b) for a, b, *_ in links(found).elements() if max(a, b) < 8]
    assert sorted(cables) == sorted((a, (a + step) % 8) for a in range(8) for step in (2, -2))
    with pytest.raises(UsageError, match="between switches") as caught:
        run(tmp_path, YAML, part="rings", gpus_per_node=2, definitions=rates, joined_by="switch")
    assert "-D uplink=" in caught.value.diagnostics[0].hint
    found = network(
        tmp_path, YAML, part="r1", gpus_per_node=2, definitions=rates | {"uplink": "1GB/s"}, joined_by="switch"
    )
    assert found.switch_count == 4 + 4
    assert sum(kind[2] == 10**9 for kind in links(found).elements()) == 8


def test_hosts_keep_the_order_of_their_places(tmp_path):
    program = run(tmp_path, RINGS, part="r2", gpus_per_node=1, definitions=NIC)
    assert network_of(program, "pod", tmp_path).real_name(0).startswith("cpu3")
    with pytest.raises(UsageError, match="ring r1 and r2, and no file says how they are connected"):
        run(tmp_path, RINGS, gpus_per_node=1, definitions=NIC)


def test_blocks_are_nvlink_domains_or_leaf_switches(tmp_path):
    with pytest.raises(UsageError, match="which hosts belong together, not what links them") as caught:
        run(tmp_path, BLOCKS, gpus_per_node=4)
    assert "--joined-by nvlink" in caught.value.diagnostics[0].hint
    one = BLOCKS.partition("\n")[0]
    rates = {"nvlink": "900GB/s", "nvlink_latency": "0.35us"}
    found = network(tmp_path, one, gpus_per_node=4, definitions=rates, joined_by="nvlink")
    assert links(found) == links(std(tmp_path, "gb200_nvl72()"))
    with pytest.raises(UsageError, match="2 blocks, and no file says how they are connected"):
        run(tmp_path, BLOCKS, gpus_per_node=4, definitions=rates, joined_by="nvlink")
    rates |= {"nic": "400Gb/s"}
    program = run(tmp_path, BLOCKS, gpus_per_node=4, definitions=rates, joined_by="nvlink", fabric="rails")
    found = network_of(program, "pod", tmp_path)
    assert (found.npu_count, found.switch_count) == (144, 2 + 4 + 1)
    assert "block b1 is gpu[01-18]" in " ".join(program.split("\n# "))
    assert "block sizes" in program  # as dropped
    assert 'use pod_node as node[36] labels "gpu[01-36]"' in program
    assert found.real_name(0) == "gpu01/GPU0"
    assert found.real_name(18 * 4 + 5) == "gpu20/GPU1"
    assert found.real_name(144) == "b1"
    assert len(program.splitlines()) < 60
    leaf = [b for a, b, rate, _ in links(found) if a == 5 and rate == 50 * 10**9]
    assert leaf == [b for a, b, rate, _ in links(found) if a == 72 + 9 and rate == 50 * 10**9]  # GPU 1 of each host
    tree = "SwitchName=b1 Nodes=gpu[01-18]\nSwitchName=b2 Nodes=gpu[19-36]\nSwitchName=spine Switches=b[1-2]\n"
    rates |= {"uplink": "1600Gb/s"}
    found = network(tmp_path, BLOCKS, gpus_per_node=4, definitions=rates, joined_by="switch")
    assert links(found) == links(network(tmp_path, tree, gpus_per_node=4, definitions=rates))


def test_parts_of_a_topology_yaml(tmp_path):
    rates = {"nvlink": "900GB/s", "nic": "400Gb/s"}
    assert network(tmp_path, YAML, gpus_per_node=1, definitions=NIC).npu_count == 24  # the default of the cluster
    found = network(
        tmp_path, YAML, part="racks", gpus_per_node=4, definitions=rates, joined_by="nvlink", fabric="switch"
    )
    assert (found.npu_count, found.switch_count) == (32, 2 + 1)
    with pytest.raises(UsageError, match="has no topology 'rack'") as caught:
        run(tmp_path, YAML, part="rack", gpus_per_node=1)
    assert "halls, racks, rings and plain" in caught.value.diagnostics[0].hint
    with pytest.raises(UsageError, match="blocks, rings and tori of Slurm"):
        run(tmp_path, "SwitchName=a Nodes=b\n", gpus_per_node=1, definitions=NIC, joined_by="nic")
    with pytest.raises(UsageError, match="--nodes takes hosts of a tree"):
        run(tmp_path, RINGS, part="r1", gpus_per_node=1, definitions=NIC, nodes=("gpu1",))


WRONG = [
    (RINGS.replace("gpu[1-4]", "cpu[1-4]"), None, 2, "cpu3 is in ring r1 and in ring r2"),
    (RINGS.replace("r2", "r1"), None, 2, "ring r1 occurs twice"),
    (RINGS.replace(" Nodes=cpu[3,1,2]", ""), None, 2, "ring r2 names no host"),
    (BLOCKS + RINGS.replace("gpu", "x"), None, 4, "switches, blocks or rings, not several of these"),
    (BLOCKS.replace("gpu[19-36]", "gpu[18-36]"), None, 2, "gpu18 is in block b1 and in block b2"),
    (YAML.replace("[01-24]", "[01-23]"), None, 5, "torus hall has 4 x 3 x 2 places and 23 hosts"),
    (YAML.replace("z: 2", "z: 0"), None, 5, "x, y and z, whole numbers of at least 1"),
    (YAML.replace("dims", "size"), None, 5, "x, y and z, whole numbers of at least 1"),
    (
        YAML.replace('nodes: "node[01-24]"', "regions: [a]"),
        None,
        5,
        "the dims of a region of torus hall are",
    ),
    (YAML.replace('nodes: "node[01-24]"', "places: [a]"), None, 5, "torus hall has no 'nodes'"),
    (YAML.replace('nodes: "n', 'regions: [], nodes: "n'), None, 5, "has both nodes and regions"),
    (REGIONS.replace("x: 2, y: 0", "x: 3, y: 0"), None, 7, "a region leads out of torus t"),
    (REGIONS.replace("a[3-4]", "a[3-5]"), None, 7, "a region has 2 x 1 x 1 places and 3 hosts"),
    (REGIONS.replace("x: 2, y: 0", "x: 1, y: 0"), None, 7, "a2 and a3 have the same place"),
    (REGIONS.replace("x: 2, y: 0", "x: -2, y: 0"), None, 7, "the anchor of a region of torus t are x, y and z"),
    (YAML.replace("block: b1", "name: b1"), "racks", 10, "a block has a 'block' and 'nodes'"),
    (YAML.replace("    rings:", "    circles:"), "rings", 14, "'ring' has no rings"),
    (YAML, "plain", 16, "a flat topology names no links"),
]


@pytest.mark.parametrize(("text", "part", "line", "message"), WRONG, ids=[row[3] for row in WRONG])
def test_wrong_groups_are_named_at_their_line(tmp_path, text, part, line, message):
    with pytest.raises(SourceError) as caught:
        run(tmp_path, text, part=part, gpus_per_node=1, definitions=NIC)
    found = caught.value.diagnostics[0]
    assert found.code == "X0601"
    assert message in found.message
    assert found.span is not None
    assert found.span.line == line


@pytest.mark.parametrize("text", [YAML, BLOCKS, RINGS], ids=["yaml", "blocks", "rings"])
def test_damaged_files_give_messages_only(tmp_path, text):
    chance = random.Random(text)
    for _ in range(40):
        at = chance.randrange(len(text))
        put = chance.choice(["", "0", "-1", "[", "}", "\n", ": ", "9" * 30, "\u00b2", text[at : at + 12] * 2])
        changed = text[:at] + put + text[at + chance.randrange(12) :]
        part = chance.choice([None, "racks", "r1"])
        with contextlib.suppress(CollcError):
            run(tmp_path, changed, kind="slurm", part=part, gpus_per_node=1, definitions=NIC, joined_by="nic")
