"""Files of white space, digits or brackets without an end: each took minutes or hours if a pattern was quadratic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collc.command.cli import main
from collc.machines.fabrics import Attachment, Fabric, part_of_fabric

SPACE = " " * 200_000
LINES = "\n" * 200_000
PLATFORM = (
    '<?xml version="1.0"?><platform version="4.1"><zone id="z" routing="Full"><host id="h" speed="1Gf"/>'
    f'<link id="l" bandwidth="1{SPACE}x" latency="1us"/></zone></platform>'
)
STATE = "Switch: 0x1 a:\n  0x1 1 1[  ] ==( 4X 53 Gbps Active/ LinkUp )==>"
DEFAULTS = "".join(f'<!ATTLIST cpu a{k} CDATA "1">' for k in range(3000))
CLUSTER = f'<cluster id="c" prefix="{"a" * 100_000}" radical="0-99999" speed="1f" bw="1Bps" lat="1s"/>'
ATTRIBUTES = " ".join(f'a{k}="1"' for k in range(400_000))

FILES = {
    "lines of any kind": ("", f"x{LINES}"),
    "rows of any kind": ("", "GPU0\n" * 50_000),
    "lines of AMD": ("amd-smi", f"{LINES}GPU0"),
    "lines of NVIDIA": ("nvidia-smi", f"{LINES}GPU0"),
    "lines of Slurm": ("slurm", f"{LINES}x"),
    "brackets of Slurm": ("slurm", f"SwitchName=s Nodes={'[' * 200_000}"),
    "a name of InfiniBand": ("iblinkinfo", f"CA:{SPACE}x"),
    "the end of a link": ("iblinkinfo", f"{STATE}{SPACE}x"),
    "the number of a port": ("iblinkinfo", f"{STATE}{'1' * 200_000}x"),
    "a rate of SimGrid": ("simgrid", PLATFORM),
    "numbers of a host": ("slurm", f"SwitchName=s Nodes={'a[1]' * 5000}"),
    "a long host": ("slurm", f"SwitchName=s Nodes={'a' * 100_000}[0-99999]"),
    "a long prefix of SimGrid": ("simgrid", f'<platform version="4.1"><zone id="z">{CLUSTER}</zone></platform>'),
    "default attributes": ("nccl", f'<!DOCTYPE system [{DEFAULTS}]><system version="1">{"<cpu/>" * 50_000}</system>'),
    "a long namespace": ("nccl", f'<system version="1" xmlns="{"u" * 10**6}">{"<cpu/>" * 50_000}</system>'),
    "attributes of an element": ("nccl", f"<system {ATTRIBUTES}/>"),
}


@pytest.mark.parametrize("name", FILES)
def test_machine_files(name: str, tmp_path: Path) -> None:
    kind, text = FILES[name]
    (path := tmp_path / "f.txt").write_text(text)
    assert main(["import", *([kind] if kind else []), str(path)]) in (1, 2)


def test_numbers_that_python_stores_in_one_place_are_no_names(tmp_path: Path) -> None:
    nodes = [{"id": k * (2**61 - 1)} for k in range(30_000)]
    (path := tmp_path / "f.json").write_text(json.dumps({"nodes": nodes, "links": []}))
    assert main(["import", "networkx", str(path), "--npu", "all", "--capacity", "r=GB/s"]) == 1


def test_a_graph_at_random_is_no_torus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each difference between two ends was tried with each size of a dimension, at all places."""
    links = [{"source": i * i % 1999, "target": i * i * i % 1997, "r": 1} for i in range(2000, 3000)]
    links = [link for link in links if link["source"] != link["target"]]
    nodes = [{"id": i} for i in range(2000)]
    text = json.dumps({"directed": True, "multigraph": True, "nodes": nodes, "links": links})
    (path := tmp_path / "f.json").write_text(text)
    assert main(["import", str(path), "--npu", "all", "--capacity", "r=GB/s"]) == 0
    assert "for at in [" in capsys.readouterr().out


def test_the_shortest_paths_between_many_switches() -> None:
    """A search from each of 2,048 switches with hosts took minutes."""
    pods = [(pod, number, other) for pod in range(64) for number in range(32) for other in range(32)]
    cables = [(f"leaf{pod}.{at}", f"spine{pod}.{other}", None) for pod, at, other in pods]
    cables += [(f"spine{pod}.{at}", f"core{at}.{other}", None) for pod, at, other in pods]
    switches = tuple(dict.fromkeys(name for a, b, _ in cables for name in (a, b)))
    hosts = [(f"{pod}.{at}", f"leaf{pod}.{at}") for pod in range(64) for at in range(32)]
    fabric = Fabric(switches, tuple(cables), tuple(Attachment(host, "p", leaf, None) for host, leaf in hosts))
    assert part_of_fabric(fabric, {host for host, _ in hosts}).switches == switches
    few = part_of_fabric(fabric, {"3.0", "3.1"})
    assert set(few.switches) == {"leaf3.0", "leaf3.1", *(f"spine3.{at}" for at in range(32))}
