"""Inputs that are no plain files, names of outputs that lead elsewhere, and an environment without the usual things."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from collc.command.cli import main

HEAD = "import std.topologies\nimport std.collectives\ntopology t = ring(4, bandwidth: 50GiB/s, latency: 0.5us)\n"
PROGRAM = HEAD + "schedule s on t { run all_gather(t.npus, size: 4MiB) synthesize tacos emit ten }\n"
READERS = [("check",), ("compile",), ("verify",), ("run",), ("inspect",), ("simulate",), ("import",), ("fmt",)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("p.coll").write_text(PROGRAM)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says that ends with an error of its input."""
    assert main(words) in (1, 2, 4)
    errors = capsys.readouterr().err
    assert "error" in errors
    assert "internal error" not in errors
    assert "Traceback" not in errors
    return errors


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
@pytest.mark.parametrize("what", ["folder", "device", "endless device", "empty", "not UTF-8", "NUL", "nothing"])
def test_what_is_no_text_is_refused(words: tuple[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("f.in")
    if what == "folder":
        path.mkdir()
    elif what.endswith("device"):
        path = Path("/dev/zero" if what.startswith("endless") else "/dev/null")
        if not path.exists():
            pytest.skip("the system has no such device")
    elif what != "nothing":
        path.write_bytes({"empty": b"", "not UTF-8": b"\xff\xfet\0e\0n\0", "NUL": b"ten 1\0\0"}[what])
    if what == "empty" and words[0] in ("check", "fmt", "compile", "simulate"):
        assert main([*words, str(path)]) in (0, 1, 2)
        return
    before = peak_memory()
    refused(capsys, *words, str(path))
    assert peak_memory() - before < 2**29, "an endless input is not read into memory"


def peak_memory() -> int:
    """Bytes that this process had at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_program_with_a_byte_order_mark(capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.coll").write_bytes(b"\xef\xbb\xbf" + PROGRAM.encode())
    code = main(["check", "b.coll"])
    errors = capsys.readouterr().err
    assert code in (0, 1)
    assert "internal error" not in errors
    assert code == 0 or "b.coll:1:1" in errors


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_a_pipe_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    expected = {("check", PROGRAM): 0, ("verify", "no program"): 4, ("simulate", "ten 2"): 1, ("show", "ten 2"): 1}
    for (command, content), code in expected.items():
        os.mkfifo(command)
        writer = threading.Thread(target=Path(command).write_text, args=(content,), daemon=True)
        writer.start()
        assert main([command, command]) == code, command
        writer.join()
    for command in ("run", "inspect"):
        os.mkfifo(command)
        assert f"is a pipe, and 'collc {command}' reads a file twice" in refused(capsys, command, command)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_outputs_that_are_pipes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    message = "cannot write pipe: it is a device, a pipe or a stream, not a file"
    assert message in refused(capsys, "topology", "p.coll:t", "--svg", "pipe")
    assert Path("pipe").is_fifo()


NAMES = [
    "..",
    "../s.ten",
    "a/../../s.ten",
    "/tmp/s.ten",
    "",
    ".",
    "n" * 300,
    "a\\nb.ten",
    "s\\tt.ten",
    "d/" * 200 + "x",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_files_that_lead_elsewhere(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("q.coll").write_text(PROGRAM.replace("emit ten", f'emit ten("{name}")'))
    before = sorted(folder.rglob("*"))
    code = main(["compile", "q.coll"])
    errors = capsys.readouterr().err
    assert "internal error" not in errors
    assert "\t" not in errors
    if code:
        assert code in (1, 2)
        assert sorted(folder.rglob("*")) == before
        assert "error[" in errors
    else:
        assert all(path.is_relative_to(folder / "work") for path in set(folder.rglob("*")) - set(before))


def test_links_that_lead_out_of_the_output_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "target").write_text("kept")
    Path("out").mkdir()
    Path("out/d").symlink_to(folder / "elsewhere")
    Path("out/s.ten").symlink_to(folder / "target")
    Path("q.coll").write_text(PROGRAM.replace("emit ten", 'emit ten("d/s.ten")'))
    assert "error[U0201]" in refused(capsys, "compile", "q.coll", "-o", "out")
    assert not list((folder / "elsewhere").iterdir())
    assert main(["compile", "p.coll", "-o", "out"]) in (0, 1)
    assert (folder / "target").read_text() == "kept"


@pytest.mark.skipif(sys.platform == "win32", reason="no such names")
@pytest.mark.parametrize("words", [("show",), ("fmt",), ("fmt", "--check")])
def test_a_name_with_control_characters_stays_in_one_line(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    name = "a\n\x1b[31mb"
    Path(f"{name}.coll").write_text(PROGRAM)
    assert main([*words, f"{name}.coll"]) == (4 if "--check" in words else 0)
    output = capsys.readouterr()
    text = output.out + output.err
    assert "a\ufffd\ufffd[31mb." in text
    assert "\x1b" not in text


@pytest.mark.parametrize("command", ["topology", "simulate", "compile"])
def test_a_table_into_a_closed_pipe_is_no_error(command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "collc", command, "p.coll"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_without_a_home_in_a_poor_locale_and_into_a_closed_pipe() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    environment |= {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = f"{sys.executable} -m collc std | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", words], capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (0, b"", 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", ["check", "compile", "simulate", "verify", "run"])
def test_the_json_of_an_error_that_cannot_be_written(command: str) -> None:
    """Into a closed pipe and a full disk: no traceback, and the exit code and the message of the error."""
    Path("p.coll").write_text("let x = ")
    Path("p.xml").write_text("<algo/>")
    words = [sys.executable, "-m", "collc", command, "p.xml" if command in ("verify", "run") else "p.coll", "--json"]
    reader, writer = os.pipe()
    os.close(reader)
    closed = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    with Path("/dev/full").open("w") as full:
        unwritten = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    for done in (closed, unwritten):
        assert "Traceback" not in done.stderr
        assert "Exception" not in done.stderr
    assert "No space left on device" in unwritten.stderr
    assert closed.returncode == (4 if command in ("verify", "run") else 1)
