"""Passes by name, with options, and pipelines of them as strings: `fixed,tacos{seed=7 trials=8},invert,verify`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.options import Option
from collc.base.wording import did_you_mean, phrase
from collc.passes.context import Pass
from collc.passes.registry import pass_kinds

Value = int | float | str | bool

_PASS: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\{([^{}]*)\})?\s*(,|$)")
_OPTION: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*([^\s,]+)\s*,?")


def make_pass(name: str, options: Mapping[str, Value | None]) -> Pass:
    """A pass by name, with those of the options that are not None.

    Raises UsageError for unknown names and options, and for values of a wrong type or below the least.
    """
    kinds = pass_kinds()
    kind = kinds.get(name)
    if kind is None:
        raise UsageError(_unknown_name("pass", name, tuple(kinds)))
    given: dict[str, int] = {}
    for option, value in options.items():
        if option not in kind.options:
            raise UsageError(_unknown_name(f"option of '{name}'", option, tuple(kind.options)))
        if value is not None:
            given[option] = _number(name, option, kind.options[option], value)
    return kind.make(given)


def _number(name: str, option: str, known: Option, value: Value) -> int:
    """The value of an option of a pass; the options of all passes are numbers."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(Diagnostic("U0103", f"option '{option}' of '{name}' must be {known.type}, not {value!r}"))
    if known.least is not None and value < known.least:
        raise UsageError(
            Diagnostic("U0103", f"option '{option}' of '{name}' must be at least {known.least}, not {value}")
        )
    return value


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Passes from `tacos{seed=7},invert,verify`.

    Raises UsageError if the text is not a pipeline.
    """
    passes: list[Pass] = []
    position = 0
    while True:
        found = _PASS.match(text, position)
        if found is None:
            message = f"the pipeline cannot be read from here on: {text[position:]!r}"
            raise UsageError(
                Diagnostic("U0101", message, hint='a pipeline reads "tacos{seed=7 trials=8},invert,verify"')
            )
        passes.append(make_pass(found[1], _options(found[1], found[2] or "")))
        position = found.end()
        if not found[3]:
            return tuple(passes)


def _options(name: str, text: str) -> dict[str, Value | None]:
    options: dict[str, Value | None] = {}
    position = 0
    while text[position:].strip():
        found = _OPTION.match(text, position)
        if found is None:
            message = f"options of '{name}' read name=value, not {text[position:].strip()!r}"
            raise UsageError(Diagnostic("U0101", message, hint=f"as in {name}{{seed=7 trials=8}}"))
        options[found[1]] = _value(found[2])
        position = found.end()
    return options


def _value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip('"')


def _unknown_name(what: str, name: str, known: tuple[str, ...]) -> Diagnostic:
    hint = did_you_mean(name, known, f"there are {phrase(known)}" if known else "it takes none")
    return Diagnostic("U0102", f"there is no {what} named '{name}'", hint=hint)
