"""Repeated warnings: those that differ only in numbers are reported once, with a count."""

from __future__ import annotations

from collc.base.diagnostics import Diagnostic, Note, fold_repeated


def warning(message: str, *notes: str, code: str = "C0101", warning: bool = True) -> Diagnostic:
    return Diagnostic(code, message, notes=tuple(map(Note, notes)), warning=warning)


def test_similar_warnings_are_reported_once() -> None:
    messages = [warning(f"gpu {k}: o_chunks is {k}") for k in range(5)]
    (one,) = fold_repeated(messages)
    assert (one.message, [note.message for note in one.notes]) == ("gpu 0: o_chunks is 0", ["and 4 more like this"])
    assert fold_repeated(messages[:1]) == messages[:1]


def test_errors_and_different_warnings_are_all_reported() -> None:
    messages = [
        warning("a is 1"),
        warning("b is 1"),
        warning("a is 2", code="C0102"),
        warning("a is 3", warning=False),
        warning("a is 4", warning=False),
    ]
    assert fold_repeated(messages) == messages


def test_faults_that_a_check_left_out_are_counted() -> None:
    (one,) = fold_repeated([warning("link 1"), warning("link 2"), warning("link 3", "and 7 more of this check")])
    assert one.notes[-1].message == "and 9 more like this"
