"""Options of synthesizers and of kinds of files: their types and limits, and the values that a program gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from collc.base.diagnostics import Diagnostic, SourceError, Span
from collc.base.wording import did_you_mean, phrase


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a synthesizer or of a kind of file.

    type: "int", "bool", "time", "string" or "range" (of bytes), as docs/language.md names the types. meaning: one line,
    for the documents and for `--help`. default: the value if the option is not given; None for no value. least, most:
    the smallest and the largest number allowed. choices: the strings allowed, () for any; of a range, the name that may
    stand in its place.
    """

    type: str
    meaning: str = ""
    default: int | str | None = None
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()


Options = Mapping[str, Option]
"""Options by name."""

OptionData = int | float | str | bool | Fraction | tuple[int, int | None]
"""The value of an option: bytes as int, times in picoseconds and rates in bytes per second as Fraction, a range of
bytes as its two ends, or the name in its place."""


@dataclass(frozen=True, slots=True)
class OptionValue:
    """One `name: value` of a synthesize or emit statement, evaluated.

    type: "int", "time", ... as in docs/language.md.
    """

    type: str
    value: OptionData
    span: Span


def check_value(name: str, value: OptionValue, option: Option) -> None:
    """Raise SourceError E0605 if the value of an option has another type or is not among those allowed."""
    data, problem, hint = value.value, "", ""
    if value.type != option.type and not (option.type == "range" and data in option.choices):
        problem = f"must be of type {option.type}, not {value.type}"
    elif option.choices and isinstance(data, str) and data not in option.choices:
        problem = f'cannot be "{data}"'
        hint = did_you_mean(data, option.choices, f"it can be {phrase(option.choices, 'or')}")
    elif isinstance(data, int | Fraction) and option.least is not None and data < option.least:
        problem = f"must be at least {option.least}, not {data}"
    elif isinstance(data, int | Fraction) and option.most is not None and data > option.most:
        problem = f"must be at most {option.most}, not {data}"
    elif isinstance(data, tuple) and not 0 <= data[0] <= (data[0] if data[1] is None else data[1]):
        problem = "is an empty range"
    if problem:
        raise SourceError(Diagnostic("E0605", f"'{name}' {problem}", value.span, hint=hint))


def check_values(values: Mapping[str, OptionValue], options: Options, what: str) -> None:
    """Raise SourceError E0604 for an option that `what` does not have, and E0605 as `check_value` does."""
    for name, value in values.items():
        if name not in options:
            raise unknown_option(name, options, what, value.span)
        check_value(name, value, options[name])


def unknown_option(name: str, options: Options, what: str, span: Span) -> SourceError:
    """The error E0604 for an option that `what` does not have."""
    hint = did_you_mean(name, options, options_in_words(options))
    return SourceError(Diagnostic("E0604", f"{what} has no option '{name}'", span, hint=hint))


def options_in_words(options: Options) -> str:
    """Which options there are, for a hint."""
    return f"it has {phrase(options)}" if options else "it has no options"
