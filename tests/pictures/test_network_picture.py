"""Layouts and pictures of networks: devices do not overlap, every device and link is drawn, large ones say what not."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from collc.pictures.layout import layout_of, node_label
from collc.pictures.network_picture import PartGroup, drawn_network, network_picture
from collc.pictures.picture import WIDTH
from collc.source.elaboration.elaborate import load_topology
from collc.ten.network import Network
from collc.ten.parts import Part
from collc.ten.transform import remove_parts
from tests.pictures.drawn import SVG, overlaps, root_of, texts, tips
from tests.support import fully_connected, grid, network, ring

LINK = "bandwidth: 50GB/s, latency: 1us"
WHOLE = [
    f"mesh2d(3, 3, {LINK})",
    f"torus2d(8, 4, {LINK})",
    f"torus2d(32, 32, {LINK})",
    f"mesh3d(3, 2, 2, {LINK})",
    f"torus3d(4, 4, 4, {LINK})",
    f"torus3d(8, 8, 8, {LINK})",
    f"ring(2, {LINK})",
    f"ring(64, {LINK})",
    f"line(20, {LINK})",
    f"fully_connected(9, {LINK})",
    f"hypercube(3, {LINK})",
    f"hypercube(5, {LINK})",
    "dragonfly(5, 4, 400GB/s, 200GB/s, 1us)",
    "dragonfly(12, 3, 400GB/s, 200GB/s, 1us)",
    f"switched(8, {LINK})",
    f"fat_tree(4, {LINK})",
    f"fat_tree(8, {LINK})",
    "leaf_spine(4, 4, 2, 10GB/s, 20GB/s, 1us)",
    "rail_only(4, 4, 300GB/s, 25GB/s, 1us, 1us)",
    "rail_optimized(4, 4, 300GB/s, 25GB/s, 1us, 1us)",
    "dgx1()",
    "dgx_h100(1)",
    "dgx_h100(2)",
    "dgx_h100(16)",
    "gb200_nvl72()",
    "mi300x_node()",
]
LARGE = {
    "dgx_h100(64)": "the first 16 of 64 nodes are drawn",
    f"ring(1600, {LINK})": "the first 1500 of 1600 NPUs are drawn",
    f"switched(400, {LINK})": "the first 128 of 400 NPUs are drawn",
}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Network]:
    path = tmp_path_factory.mktemp("networks") / "n.coll"
    every = [*WHOLE, *LARGE]
    text = "".join(f"topology t{k} = {name}\n" for k, name in enumerate(every))
    path.write_text("import std.topologies\nimport std.clusters\n" + text)
    return {name: load_topology(path, f"t{k}", {}) for k, name in enumerate(every)}


def crowded(found: dict[int, tuple[float, float]], least: float) -> list[tuple[int, int]]:
    """Pairs of devices closer to each other than `least`, found in cells of that size."""
    cells: dict[tuple[int, int], list[int]] = {}
    for device, (x, y) in found.items():
        cells.setdefault((int(x / least), int(y / least)), []).append(device)
    close = []
    for i, j in cells:
        near = [d for di in (-1, 0, 1) for dj in (-1, 0, 1) for d in cells.get((i + di, j + dj), [])]
        close += [(a, b) for a, b in combinations(near, 2) if math.dist(found[a], found[b]) < least]
    return close


@pytest.mark.parametrize("name", WHOLE)
def test_every_device_and_link_is_drawn(networks: dict[str, Network], name: str) -> None:
    net = networks[name]
    layout = layout_of(net)
    assert set(layout.points) == set(range(net.device_count))
    npus = {device: point for device, point in layout.points.items() if device < net.npu_count}
    assert layout.radius >= 1.5
    assert crowded(npus, 1.9 * layout.radius) == []
    assert crowded(layout.points, 1.5 * layout.radius) == []
    assert all(0 < x < WIDTH and 0 < y < layout.height for x, y in layout.points.values())
    picture = network_picture(net)
    assert overlaps(picture) == []
    drawn = root_of(picture)
    circles = [node for node in drawn.iter(f"{SVG}circle") if node.get("class") == "npu"]
    switches = [node for node in drawn.iter(f"{SVG}rect") if node.get("class") == "switch"]
    assert (len(circles), len(switches)) == (net.npu_count, net.switch_count)
    pairs = {(min(a, b), max(a, b)) for a, b in zip(net.source.tolist(), net.target.tolist(), strict=True)}
    lines = [tip for tip in tips(picture) if " -> " in tip]
    assert len(lines) == (len(pairs) if len(pairs) <= 1500 else 0)


@pytest.mark.parametrize("name", LARGE)
def test_large_networks_say_what_is_not_drawn(networks: dict[str, Network], name: str) -> None:
    picture = network_picture(networks[name])
    assert LARGE[name] in texts(picture)
    assert len(picture.body) < 600_000


def test_lines_of_a_lattice_pass_no_device(networks: dict[str, Network]) -> None:
    """Links round the end of a torus bend, or are drawn as stubs; others are straight."""
    small = network_picture(networks[f"torus2d(8, 4, {LINK})"]).body
    assert small.count("Q") == 2 * (8 + 4)  # each with a wider one that the pointer hits
    large = network_picture(networks[f"torus2d(32, 32, {LINK})"]).body
    assert "Q" not in large


def test_lines_between_groups_bend_round_devices(networks: dict[str, Network]) -> None:
    """In this dragonfly, NPU 1 is near the straight line from NPU 0 to NPU 4."""
    net = networks["dragonfly(5, 4, 400GB/s, 200GB/s, 1us)"]
    marks = root_of(network_picture(net)).iter(f"{SVG}g")
    (bent,) = [mark for mark in marks if mark[0].text and mark[0].text.startswith("npu[0, 0] -> npu[1, 0] and back")]
    assert "Q" in (bent[1].get("d") or "")


def test_the_load_is_one_line_for_each_direction() -> None:
    net = ring(4)
    load = np.arange(8, dtype=np.int64) * 2**20
    picture = network_picture(net, load)
    lines = [tip for tip in tips(picture) if " -> " in tip]
    assert len(lines) == 8
    assert any(tip.endswith("carries 7MiB") for tip in lines)
    levels = {node.get("class") for node in root_of(picture).iter(f"{SVG}path")} - {"hit"}
    assert {"g0", "g15"} <= levels
    sent = [tip for tip in tips(picture) if "rank 0: sends" in tip]
    assert len(sent) == 1


def test_removed_devices_and_parallel_links() -> None:
    net = network(3, [(0, 1), (0, 1), (1, 0), (1, 2)])
    net.present[2] = False
    found = tips(network_picture(net))
    assert any("and back (3 links)" in tip for tip in found)
    assert any(tip.endswith("removed") for tip in found)
    assert any(" -> " in tip and "and back" not in tip for tip in found)


@pytest.mark.parametrize("load", [False, True])
def test_removed_links_are_drawn_as_such(load: bool) -> None:
    """A mesh without an NPU and without a link in one direction, which remains in the other."""
    whole = grid(3, 3)
    link = next(k for k in range(whole.link_count) if (whole.source[k], whole.target[k]) == (7, 8))
    damaged = remove_parts(whole, [1], np.array([link]))
    again = remove_parts(damaged, [], np.flatnonzero((damaged.source == 3) | (damaged.target == 3)))
    picture = network_picture(again, np.ones(again.link_count, np.int64) if load else None)
    ends = [tip.removesuffix(": removed") for tip in tips(picture) if tip.endswith(": removed")]
    names = [again.device_name(device) for device in range(9)]
    pairs = [(0, 1), (0, 3), (1, 2), (1, 4), (3, 4), (3, 6), (7, 8)]
    assert ends == [f"{names[a]} - {names[b]}" for a, b in pairs]
    assert any("removed" in text for text in texts(picture))
    assert not any("removed" in text for text in texts(network_picture(whole)))


@pytest.mark.parametrize("two", [False, True])
def test_a_removed_link_leads_around_devices(two: bool) -> None:
    """The link from one end of a row of a torus to the other, alone or with another one that is removed."""
    whole = grid(4, 4, wrap=True)
    pairs = {(0, 3), (0, 1)} if two else {(0, 3)}
    ends = [(min(pair), max(pair)) for pair in zip(whole.source.tolist(), whole.target.tolist(), strict=True)]
    damaged = remove_parts(whole, [], np.array([link for link, pair in enumerate(ends) if pair in pairs]))
    for load in (None, np.ones(damaged.link_count, np.int64)):
        drawn = root_of(network_picture(damaged, load)).iter(f"{SVG}path")
        failed = [path.get("d") for path in drawn if path.get("class") == "failed"]
        assert sum("Q" in path or path.count("M") == 2 for path in failed[-len(pairs) :]) == 1
    moving = drawn_network(damaged).removed
    assert sum("Q" in path or path.count("M") == 2 for path in moving) == 1


def test_a_network_without_links_or_rates() -> None:
    assert "NPU" in network_picture(network(1, [])).description
    assert network_picture(fully_connected(1)).body


def test_names_of_nodes() -> None:
    assert node_label("gpu[3, 5]") == "gpu[3, *]"
    assert node_label("node[3].gpu[5]") == "node[3]"
    assert node_label("gpu[3]") == "gpu[3]"


def test_many_lines_with_a_load_are_thin(networks):
    for name, least, most in (("dgx_h100(2)", 1.0, 3.7), ("dgx_h100(16)", 0.6, 0.8)):
        net = networks[name]
        root = root_of(network_picture(net, np.arange(net.link_count, dtype=np.int64)))
        lines = [path for path in root.iter(f"{SVG}path") if (path.get("class") or "").startswith("g")]
        assert len(lines) == net.link_count
        widths = [float(line.get("stroke-width") or 0) for line in lines]
        assert least <= min(widths) <= max(widths) <= most


def test_links_round_the_third_dimension_of_a_torus_are_seen(networks):
    """Each of the 48 rings of four NPUs is closed by two stubs, those behind each other too."""
    root = root_of(network_picture(networks[f"torus3d(4, 4, 4, {LINK})"]))
    drawn = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("class") == "s0"]
    assert sum(path.count("M") == 2 for path in drawn) == 48
    assert len(drawn) == 1 + 3 * 64, "one of them in the legend"


def test_parts_have_colours() -> None:
    whole = grid(2, 2)
    groups = [
        PartGroup("cables", [Part("a", (), ((0, 1), (1, 0)))], "of the first group"),
        PartGroup("NPUs", [Part("b", (3,)), Part("c", (), ((1, 0),))], "of the second group"),
    ]
    picture = network_picture(whole, groups=groups)
    root = root_of(picture)
    assert {"cables", "NPUs"} <= {*texts(picture)}
    said = [tip for tip in tips(picture) if "; of the" in tip]
    assert len(said) == 2
    assert said[0].endswith("; of the first group")  # of two groups, the first
    assert said[1].startswith("npu[1, 1], rank 3; of the second")
    assert len(root.findall(f".//{SVG}circle[@class='s1']")) == 1
    assert len(root.findall(f".//{SVG}path[@class='wire']")) == 3


def test_a_node_has_the_colour_of_its_frame(networks: dict[str, Network]) -> None:
    node = Part("node[1]", (*range(8, 16), 17))
    picture = network_picture(networks["dgx_h100(2)"], groups=[PartGroup("nodes", [node], "as one")])
    root = root_of(picture)
    assert len(root.findall(f".//{SVG}rect[@class='s0']")) == 1
    assert root.findall(f".//{SVG}circle[@class='s0']") == []
    assert [tip for tip in tips(picture) if tip.endswith("as one")] == ["gpu[1, *]; as one"]
