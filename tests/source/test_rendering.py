"""Messages as text and as JSON."""

from __future__ import annotations

import json

from collc.base.diagnostics import Diagnostic, Note, SourceFile, Span, messages_as_json, render


def message(text: str, start: int, end: int, **more: object) -> Diagnostic:
    return Diagnostic("E0101", "wrong", Span(SourceFile("a.coll", text), start, end), **more)  # type: ignore[arg-type]


def lines(diagnostic: Diagnostic) -> list[str]:
    return render([diagnostic]).split("\n")


def test_the_span_is_underlined() -> None:
    assert lines(message("let a\nlet b = c\n", 14, 15, hint="try d")) == [
        "error[E0101]: wrong",
        " --> a.coll:2:9",
        "  |",
        "2 | let b = c",
        "  |         ^",
        "help: try d",
    ]


def test_tabs_and_wide_characters() -> None:
    assert lines(message("\ta\tbc", 3, 5))[3:] == ["1 |     a   bc", "  |         ^^"]
    assert lines(message('"日本" x', 5, 6))[3:] == ['1 | "日本" x', "  |        ^"]
    assert lines(message("e\u0301 x", 3, 4))[3:] == ["1 | e\u0301 x", "  |   ^"]
    assert lines(message("日本", 0, 2))[4] == "  | ^^^^"


def test_notes_and_several_lines() -> None:
    note = Note("opened here", Span(SourceFile("b.coll", "(x"), 0, 1))
    out = lines(message("for {\n}\n", 4, 7, notes=(note, Note("only words"))))
    assert out[3:5] == ["1 | for {", "  |     ^ ..."]
    assert out[5:] == ["note: opened here", " --> b.coll:1:1", "  |", "1 | (x", "  | -", "note: only words"]


def test_the_end_of_a_file_and_an_empty_file() -> None:
    assert lines(message("let\n", 3, 3))[3:] == ["1 | let", "  |    ^"]
    assert lines(message("", 0, 0))[3:] == ["1 |", "  | ^"]


def test_long_lines_are_clipped_around_the_span() -> None:
    out = lines(message("x" * 500 + "y" + "x" * 500, 500, 501))
    assert len(out[3]) < 180
    assert out[3][out[4].index("^")] == "y"


def test_control_characters_are_not_printed() -> None:
    text = "let a = \x1b[31m\r\x00 \u202e b"
    out = render([message(text, 8, 9), Diagnostic("E0101", f"found {text}")])
    assert all(c.isprintable() or c == "\n" for c in out)


def test_what_a_message_quotes_is_no_message_of_its_own_and_not_long() -> None:
    name = "x\nerror[E0101]: fake.ten " + "y" * 30_000
    out = render([Diagnostic("E0101", name, notes=(Note(name),), hint=name)])
    assert [line[:6] for line in out.split("\n")] == ["error[", "note: ", "help: "]
    assert len(out) < 3 * 4_100


def test_colours_only_where_asked_for() -> None:
    warning = message("a b", 2, 3, warning=True, hint="h", notes=(Note("n"),))
    assert "\x1b" not in render([warning])
    painted = render([warning], colour=True)
    assert painted.startswith("\x1b[1;33mwarning[E0101]\x1b[0m")
    assert "\x1b" in painted.split("\n")[4]


def test_json() -> None:
    note = Note("there", Span(SourceFile("b.coll", "xy\nz"), 1, 4))
    (first, second) = messages_as_json(
        [message("a\nbc", 2, 4, notes=(note,)), Diagnostic("E0201", "no place", hint="h")]
    )
    assert json.loads(json.dumps(first)) == {
        "code": "E0101",
        "severity": "error",
        "message": "wrong",
        "hint": None,
        "file": "a.coll",
        "line": 2,
        "column": 1,
        "end_line": 2,
        "end_column": 3,
        "notes": [
            {"message": "there", "file": "b.coll", "line": 1, "column": 2, "end_line": 2, "end_column": 2},
        ],
    }
    assert (second["line"], second["hint"]) == (None, "h")
