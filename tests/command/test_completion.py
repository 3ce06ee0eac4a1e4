"""What bash, zsh and fish offer after the words of a command line."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from collc.command.cli import main
from collc.command.completion import completing_parser

argcomplete = pytest.importorskip(
    "argcomplete", reason="argcomplete is not installed: python -m pip install argcomplete"
)

PROGRAM = """import std.clusters
import std.collectives
param nodes: int = 2
param size: bytes
topology pod = dgx_h100(nodes)
topology other { npu n[2] link n[0] <-> n[1] (bandwidth: 1GB/s, latency: 1us) }
schedule gather on pod { run all_gather(pod.npus, size: size) }
schedule sum on pod { run all_reduce(pod.npus, size: size) }
design best on pod { minimize time }
"""
CASES = {
    "collc ": {"compile", "check", "new", "doctor"},
    "collc comp": {"compile", "compare", "completion"},
    "collc compile ": {"p.coll", "parts/"},
    "collc compile pa": {"parts/"},
    "collc compile parts/": {"parts/q.coll"},
    "collc compile ./p": {"./p.coll", "./parts/"},
    "collc compile p.coll -o ": {"parts/"},
    "collc compile p.coll --sch": {"--schedule"},
    "collc compile p.coll --schedule ": {"gather", "sum"},
    "collc compile p.coll --schedule=s": {"--schedule=sum"},
    "collc compile p.coll -D ": {"nodes=", "size="},
    "collc check p.coll -D n": {"nodes="},
    "collc compile wrong.coll -D ": set(),
    "collc compile missing.coll -D ": set(),
    "collc compile -D ": set(),
    "collc verify f.xml --program p.coll --schedule ": {"gather", "sum"},
    "collc design p.coll --design ": {"best"},
    "collc topology p.coll:": {"p.coll:pod", "p.coll:other"},
    "collc topology p.coll -D ": {"nodes=", "size="},
    "collc show f.xml --on p.coll:p": {"p.coll:pod"},
    "collc show p.coll --theme ": {"light", "dark"},
    "collc compile p.coll --chunks ": {"auto"},
    "collc compile p.coll --emit msccl": {"msccl", "msccl_stages", "mscclpp"},
    "collc sweep p.coll --algorithm tacos,fo": {"tacos,forest"},
    "collc explain E0203": {"E0203"},
    "collc std mesh": {"mesh2d", "mesh3d"},
    "collc import nv": {"nvidia-smi", "nvidia-smi-models"},
    "collc import --fabric r": {"rails"},
    "collc run f.xml --count ": set(),
}
"""Command line -> what is offered; more is allowed only if it ends with a space before anything of a value is typed."""

MORE = ("collc ", "collc compile ", "collc std mesh")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("parts").mkdir()
    for name, text in {"p": PROGRAM, "parts/q": PROGRAM, "wrong": "param = 1\n", ".hidden": PROGRAM}.items():
        Path(f"{name}.coll").write_text(text)
    Path("f.xml").write_text("<algo/>")


def offered(line: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What argcomplete answers."""
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setenv("_ARGCOMPLETE_IFS", "\n")
    monkeypatch.setenv("_ARGCOMPLETE_SHELL", "fish")
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    answer = io.StringIO()
    finder = argcomplete.CompletionFinder()
    monkeypatch.setattr(finder, "_init_debug_stream", lambda: None)
    monkeypatch.setattr(sys.modules["argcomplete.io"], "debug_stream", io.StringIO())
    finder(completing_parser(), always_complete_options=False, exit_method=lambda _: None, output_stream=answer)
    return {word.strip() for word in answer.getvalue().split("\n") if word}


@pytest.mark.parametrize("line", CASES)
def test_what_is_offered(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = offered(line, monkeypatch)
    assert found >= CASES[line]
    assert line in MORE or found == CASES[line]
    assert not any("hidden" in word for word in found)


SHELLS = {
    "bash": "eval \"$(collc completion bash)\"; COMP_LINE='collc compile p.coll -D '; COMP_POINT=${#COMP_LINE}; "
    '_python_argcomplete collc 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": "compdef() { :; }; eval \"$(collc completion zsh)\"; BUFFER='collc compile p.coll -D '; CURSOR=${#BUFFER}; "
    "words=(collc); _describe() { print -l $completions }; _python_argcomplete",
    "fish": "collc completion fish | source; complete -C 'collc compile p.coll -D '",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_ask_for_params(shell: str, tmp_path: Path) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "collc"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m collc "$@"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run([path, "-c", SHELLS[shell]], env=environment, capture_output=True, text=True, check=False)
    assert [line.split("\t")[0].split(":")[0] for line in done.stdout.split()][:1] == ["nodes="], done.stderr
    assert "size=" in done.stdout


def test_completion_without_its_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert main(["completion", "bash"]) == 2
    assert "error[U0141]: completion needs the package 'argcomplete'" in capsys.readouterr().err
