"""Ordinary faults of a system give an error with the right exit code, and what was on disk before is preserved."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from collc.base.atomic_files import check_folder
from collc.base.diagnostics import Diagnostic, SourceFile, Span, UsageError, render
from collc.base.tables import Table
from collc.command.cli import main
from collc.command.options import COMMANDS
from collc.command.terminal import Output, print_output

HEAD = "import std.topologies\nimport std.collectives\ntopology t = ring(4, bandwidth: 50GiB/s, latency: 0.5us)\n"
PROGRAM = HEAD + "schedule s on t { run all_gather(t.npus, size: 4MiB) synthesize tacos emit ten }\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.coll").write_text(PROGRAM)
    return tmp_path


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    words = command.replace("collc", f"{sys.executable} -m collc", 1)
    return subprocess.run(["sh", "-c", words], capture_output=True, env=os.environ | environment, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("command", ["collc std", "collc explain E0203"])
def test_a_full_stdout_is_an_error_with_its_reason(command: str) -> None:
    done = shell(f"{command} > /dev/full")
    assert done.returncode == 2, done.stderr
    first, second = done.stderr.decode().splitlines()
    assert (
        first == f"error[U0138]: cannot read or write standard output or a temporary file: {os.strerror(errno.ENOSPC)}"
    )
    assert second.startswith("help: free some space")


def test_closed_streams_are_no_fault() -> None:
    done = shell("collc compile p.coll <&- >&-")
    assert (done.returncode, b"error" in done.stderr) == (0, False)
    assert main(["verify", "s.ten"]) == 0


def test_a_full_disk_leaves_the_file_that_was_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from collc.emit import ten

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    Path("s.ten").write_text("before")
    monkeypatch.setattr(ten, "write_module", full)
    assert main(["compile", "p.coll"]) == 2
    assert "error[U0138]: cannot read or write s.ten: No space left" in (said := capsys.readouterr().err)
    assert "help: free some space" in said
    assert sorted(path.name for path in Path().iterdir()) == ["p.coll", "s.ten"]
    assert Path("s.ten").read_text() == "before"


def test_symbolic_links_in_a_circle(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a").symlink_to("b")
    Path("b").symlink_to("a")
    Path("loop.coll").symlink_to("loop.coll")
    assert main(["check", "loop.coll"]) == 1
    assert main(["compile", "p.coll", "-o", "a"]) == 2
    Path("q.coll").write_text(PROGRAM.replace("emit ten", 'emit ten("a/s.ten")'))
    assert main(["compile", "q.coll"]) in (1, 2)
    Path("r.coll").write_text('import "loop.coll"\n' + PROGRAM)
    assert main(["compile", "r.coll"]) == 1
    assert "internal error" not in capsys.readouterr().err


def test_an_output_folder_is_looked_at_before_synthesis(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in its place, and a folder that may not be written (root may write to all)."""
    from collc.application.compile import compilation

    monkeypatch.setattr(compilation, "build_schedule", lambda _given: pytest.fail("it was synthesized first"))
    assert main(["compile", "p.coll", "-o", "p.coll/sub"]) == 2
    monkeypatch.setattr(os, "access", lambda *_arguments: False)
    with pytest.raises(UsageError):
        check_folder(Path("new/folder"))
    assert not Path("new").exists()


def test_a_name_that_the_locale_lacks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def ascii_only(_chosen: object) -> None:
        "Größe".encode("ascii")

    monkeypatch.setitem(COMMANDS, "verify", replace(COMMANDS["verify"], run=ascii_only))
    assert main(["verify", "x.ten"]) == 2
    assert (
        "error[U0139]: 'Gr\\xf6\\xdfe' cannot be written in the encoding of the locale, ascii"
        in capsys.readouterr().err
    )


def test_other_letters_are_escaped_in_a_poor_locale() -> None:
    Path("Größe.coll").write_text("let a = b")
    done = shell("collc check Größe.coll", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 1, done.stderr
    assert b"error[E0201]" in done.stderr


def test_control_characters_are_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    file = SourceFile("a\x1b[2Jb.coll", "x")
    assert "\x1b" not in render([Diagnostic("E0201", "m\x1b[31m", Span(file, 0, 1), hint="\x07")])
    output = Output(dict[str, object], [Table(["name"], [["a\x1b]0;title\x07"]])])
    print_output(output, as_json=False)
    assert "\x1b" not in capsys.readouterr().out


def test_an_import_shows_nothing_of_a_file_that_is_no_program(capsys: pytest.CaptureFixture[str]) -> None:
    Path("secret").write_text("password = hunter2\n")
    Path("q.coll").write_text('import "secret"\n' + PROGRAM)
    assert main(["check", "q.coll"]) == 1
    errors = capsys.readouterr().err
    assert "error[E0706]: 'secret' is not the name of a program" in errors
    assert "hunter2" not in errors


@pytest.mark.parametrize("text", ["password = hunter2\n", "# hunter2\n42 hunter2", '"hunter2', "{hunter2}", "§hunter2"])
def test_an_import_shows_nothing_of_a_file_that_only_has_the_name_of_a_program(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("secret.coll").write_text(text)
    Path("q.coll").write_text('import "secret.coll"\n' + PROGRAM)
    assert main(["check", "q.coll"]) == 1
    errors = capsys.readouterr().err
    assert "error[E0706]: 'secret.coll' is not a program: it does not begin with a statement" in errors
    assert "q.coll:1:1" in errors
    assert "hunter2" not in errors


def test_an_import_shows_what_is_wrong_in_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    Path("part.coll").write_text("# a part\nlet a = = 1\n")
    Path("q.coll").write_text('import "part.coll"\n' + PROGRAM)
    assert main(["check", "q.coll"]) == 1
    assert "part.coll:2:9" in capsys.readouterr().err


INTERRUPTED = """
from collc import __main__
from collc.command import cli

def interrupted():
    raise KeyboardInterrupt

cli.main = interrupted
__main__.start()
print("not ended")
"""


def test_ctrl_c_while_it_is_being_loaded_is_quiet() -> None:
    """In a process of its own, since that is ended."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, b"", b"")


CACHE = """
import numpy as np
from collc.kernels.compiled import compile_kernel
from collc.kernels.first_gaps import first_gaps
start = np.zeros(2, np.int64)
compile_kernel(first_gaps)(np.array([0, 1]), 3, np.array([5]), np.array([9]), start)
print(start.tolist())
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "empty", "noise", "read-only"])
def test_a_damaged_kernel_cache_is_rebuilt(folder: Path, fault: str) -> None:
    cache = folder / "cache"

    def result() -> bytes:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
        return subprocess.run([sys.executable, "-c", CACHE], capture_output=True, env=environment, check=True).stdout

    if fault == "read-only":
        cache.write_text("a file in place of the folder")
        assert result() == result()
        return
    good = result()
    assert good == b"[0, 9]\n"
    files = list(cache.rglob("*.nb?"))
    assert files
    noise = np.random.default_rng(0)
    for path in files:
        if fault != "none":
            path.write_bytes(b"" if fault == "empty" else noise.bytes(100))
    assert result() == good
    assert result() == good


@pytest.mark.parametrize("words", [["show", "p.coll", "--svg"], ["calibrate", "p.coll", "-o"]])
def test_a_folder_for_a_file_is_named_before_the_work(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "."]) == 2
    assert "a file and no folder is expected, not '.'" in capsys.readouterr().err
