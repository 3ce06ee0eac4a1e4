"""Arguments of the command line: help, misspelled words, and the output folder."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from collc.command.cli import main
from collc.command.options import COMMANDS
from collc.command.values import duration_of, seconds_of, size_of

PROGRAM = (
    "import std.topologies\nimport std.collectives\n"
    "topology t = ring(4, bandwidth: 50GiB/s, latency: 0.5us)\n"
    "schedule s on t { run all_gather(t.npus, size: 4MiB) emit ten }\n"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.coll").write_text(PROGRAM)


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_collc_alone_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr()
    assert shown.out == help_of(capsys)
    assert shown.err == ""


def test_the_help_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    shown = " ".join(help_of(capsys).split())
    for command in COMMANDS:
        assert f" {command} " in shown
    for code in (0, 1, 2, 3, 4, 5, 130):
        assert re.search(rf"[:;] {code} [a-z]", shown), code


@pytest.mark.parametrize("command", COMMANDS)
def test_every_argument_has_a_help_text(capsys: pytest.CaptureFixture[str], command: str) -> None:
    _, _, described = help_of(capsys, command).partition("\n\n")
    lines = described.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"  \S", line):
            text = re.split(r"\s{2,}", line.strip(), maxsplit=1)
            below = lines[number + 1] if number + 1 < len(lines) else ""
            assert len(text) == 2 or below.startswith("       "), line


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["complie", "p.coll"], "there is no command 'complie'", "did you mean 'compile'?"),
        (["frobnicate"], "there is no command 'frobnicate'", "the commands are compile, check, verify"),
        (["compile", "p.coll", "--sede", "3"], "'collc compile' does not take '--sede'", "did you mean '--seed'?"),
        (["compile", "p.coll", "--algoritm=pccl"], "does not take '--algoritm=pccl'", "did you mean '--algorithm'?"),
        (["check", "p.coll", "--xyz"], "'collc check' does not take '--xyz'", "'collc check --help' lists"),
        (["verify", "p.ten", "b.ten"], "'collc verify' does not take 'b.ten'", "'collc verify --help' lists"),
    ],
)
def test_misspelled_words_name_the_nearest(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str, hint: str
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert f"help: {hint}" in shown.err


@pytest.mark.parametrize(("name", "kind"), [("s.xml", "msccl"), ("s.ten", "ten"), ("plan.json", "mscclpp")])
def test_an_output_folder_named_like_a_file_is_warned_about(
    capsys: pytest.CaptureFixture[str], name: str, kind: str
) -> None:
    assert main(["compile", "p.coll", "-o", name]) == 0
    shown = capsys.readouterr().err
    assert f"warning[U0209]: the output folder is called {name}" in shown
    assert f'emit {kind}("{name}")' in shown
    assert (Path(name) / "s.ten").is_file()
    assert main(["compile", "p.coll", "-o", name]) == 0
    assert "U0209" not in capsys.readouterr().err


def test_an_output_folder_with_another_name_is_not_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "p.coll", "-o", "out/v1.2"]) == 0
    assert "U0209" not in capsys.readouterr().err


def test_sizes_and_times_are_those_of_the_language() -> None:
    assert [size_of(text) for text in ("4.5KiB", "4608", "1e3B", "64MiB")] == [4608, 4608, 1000, 64 << 20]
    assert [seconds_of(text) for text in ("2s", "2", "500ms", "1e3us", "0.5", "1.5min")] == [2, 2, 0.5, 0.001, 0.5, 90]
    assert duration_of("0us") == 0
    for text in ("0.5B", "4.5Kib", "2s", "", "-1B", "0", "1e99B", "B"):
        with pytest.raises(ArgumentTypeError, match="a size in whole bytes is expected, as in 64MiB"):
            size_of(text)
    for text in ("0s", "2KiB", "-1", "nan", "2 s", "1e9s", "s"):
        with pytest.raises(ArgumentTypeError, match="a positive number of seconds is expected"):
            seconds_of(text)


def test_a_size_and_a_time_limit_with_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Path(__file__).parents[2] / "examples" / "quickstart.coll"
    assert main(["compile", str(program), "-o", str(tmp_path), "--time-limit", "20s"]) == 0
    assert main(["simulate", str(tmp_path / "gather.xml"), "--on", f"{program}:mesh", "--size", "4.5KiB"]) == 0
    assert "all_gather, 4608B" in capsys.readouterr().out
