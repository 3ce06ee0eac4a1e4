"""Elaboration of the options of `synthesize` and `emit` statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from collc.base.options import Option, Options, OptionValue, check_value, options_in_words, unknown_option
from collc.emit.kinds import EMIT_KINDS
from collc.passes.synthesizers import SYNTHESIZERS
from collc.source.automatic_chunks import AUTO
from collc.source.elaboration.containers import coerced
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.values import Interval, Value
from collc.source.parsing.expressions import Argument, Name
from collc.source.problems import fail
from collc.source.types import BOOL, BYTES, INT, RANGE, STRING, TIME, Kind, Type

TYPES: Final = {"int": INT, "bool": BOOL, "string": STRING, "time": TIME, "range": RANGE}
"""The types of options by name."""


@dataclass(frozen=True, slots=True)
class OptionTables:
    """The options of all synthesizers and of all kinds of files, by name. Pass other tables to add more."""

    synthesizers: Mapping[str, Options] = field(
        default_factory=lambda: {name: synthesizer.options for name, synthesizer in SYNTHESIZERS.items()}
    )
    kinds: Mapping[str, Options] = field(default_factory=lambda: {name: k.options for name, k in EMIT_KINDS.items()})


def checked_options(
    arguments: Sequence[Argument], known: Options, what: str, evaluator: Evaluator, frame: Frame
) -> dict[str, OptionValue]:
    """The values of options by name, each of its type and within its limits. Raises SourceError."""
    found: dict[str, OptionValue] = {}
    for argument in arguments:
        if argument.name is None:
            raise fail("E0603", f"an option of {what} needs a name", argument.span, hint=options_in_words(known))
        name = argument.name.name
        if name not in known:
            raise unknown_option(name, known, what, argument.name.span)
        if name in found:
            raise fail("E0212", f"'{name}' is given twice", argument.span)
        found[name] = _option(argument, name, known[name], evaluator, frame)
    return found


def _option(argument: Argument, name: str, option: Option, evaluator: Evaluator, frame: Frame) -> OptionValue:
    span = argument.value.span
    if option.type == "range":
        if stands_for_range(option, argument, lambda name: frame.find(name) is not None):
            return OptionValue("string", AUTO, span)
        data = _sizes(evaluator.value(argument.value, frame), argument)
    else:
        value = coerced(evaluator.value(argument.value, frame), TYPES[option.type], span, f"'{name}'")
        data = Fraction(value.data) if option.type == "time" else value.data
    checked = OptionValue(option.type, data, span)
    check_value(name, checked, option)
    return checked


def stands_for_range(option: Option, argument: Argument, is_declared: Callable[[str], bool]) -> bool:
    """Whether an argument is the name that may stand for a range, such as `auto`, and no value of the program."""
    value = argument.value
    return isinstance(value, Name) and value.name in option.choices and not is_declared(value.name)


def _sizes(value: Value, argument: Argument) -> tuple[int, int]:
    """The ends of `64MiB .. 4GiB`, a range of bytes that includes both. Raises SourceError."""
    data = value.data
    if not isinstance(data, Interval) or value.type != Type(Kind.RANGE, BYTES):
        hint = "write sizes: 64MiB .. 4GiB, or sizes: auto"
        raise fail("E0605", f"a range of bytes is required, not {value.type}", argument.value.span, hint=hint)
    return int(data.low), int(data.high)
