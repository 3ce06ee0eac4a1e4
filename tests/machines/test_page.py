"""The commands of docs/machines.md that need no cluster, as they stand, in a folder with files of two nodes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machines import formats

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.compile(r"^```(sh|coll)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LESS = "--algorithm symmetric --chunks 1 --instances 1 --channels 1 --protocol Simple --jobs 1 -o tuned"


def table(latency: float, rate: float) -> str:
    """What sendrecv_perf prints. latency: microseconds. rate: bytes per second."""
    times = [(size, latency + size / rate * 1e6) for size in (8 << power for power in range(28))]
    return "".join(f"{size} {size // 4} float none -1 {t:.4f} 1 1 0 {t:.4f} 1 1 N/A\n" for size, t in times)


def dump(folder: Path) -> None:
    """What the cluster prints in the steps that need one."""
    nics = [(f"mlx5_{at}", 400_000) for at in range(8)]
    (folder / "topo.xml").write_text(formats.nccl_node(8, switch_links=18, nics=nics))
    hosts = [(f"node0{n}", f"mlx5_{at}", at) for n in (1, 2) for at in range(8)]
    switches = [*(f"leaf{at}" for at in range(8)), "spine"]
    (folder / "fabric.txt").write_text(formats.ibnetdiscover(switches, [(leaf, 8) for leaf in range(8)], hosts))
    (folder / "nvlink.txt").write_text(table(1.4, 340e9))
    (folder / "nic.txt").write_text(table(4.2, 46e9))


@pytest.mark.slow
def test_the_way_from_a_cluster_to_a_file(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "machines.md").read_text(encoding="utf-8").partition("## From a cluster")[2]
    dump(tmp_path)
    script = ["set -eu", f'collc() {{ "{sys.executable}" -m collc "$@"; }}']
    for kind, text in BLOCKS.findall(page):
        if kind == "coll":
            (tmp_path / "sum.coll").write_text(text)
        elif shutil.which("jq") or not text.startswith("jq"):
            script.append(text.replace("256MiB -o tuned", f"2MiB {LESS}"))  # all that tune tries takes minutes
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "nic_latency: measured 2.1us, nominal 850ns (147% more)" in done.stderr
    assert {"pod.svg", "nvlink.coll", "nic.coll"} <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "out" / "sum.xml").is_file()
    assert [path.name for path in (tmp_path / "tuned" / "msccl").iterdir()] == ["sum.0.xml"]
    if shutil.which("jq"):
        assert (tmp_path / "hosts.txt").read_text() == "node01 slots=8\nnode02 slots=8\n"
        assert done.stdout.splitlines()[-1].startswith("2097152\t")
