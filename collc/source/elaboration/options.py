"""Elaboration of the options of `synthesize` and `emit` statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from collc.base.options import Option, Options, OptionValue
from collc.base.wording import did_you_mean, listed
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
        default_factory=lambda: {name: s.options for name, s in SYNTHESIZERS.items()}
    )
    kinds: Mapping[str, Options] = field(default_factory=lambda: KINDS)


MSCCL: Final[Options] = {
    "instances": Option("int", least=1),
    "protocol": Option("string", choices=("Simple", "LL", "LL128")),
    "channels": Option("int", least=1),
    "sizes": Option("range", least=0, choices=(AUTO,)),
    "profile": Option("string", choices=("executor", "old", "rccl")),
    "placement": Option("string", choices=("in", "out", "both")),
    "coll": Option("string", choices=("custom",)),
}

KINDS: Final[dict[str, Options]] = {
    "ten": {"binary": Option("bool")},
    "msccl": MSCCL,
    "msccl_stages": MSCCL,
    "mscclpp": {
        **{name: MSCCL[name] for name in ("instances", "protocol", "channels", "sizes", "placement", "coll")},
        "gpus_per_node": Option("int", least=1),
    },
    "chakra": {},
    "trace": {},
    "report": {},
    "libra": {},
}


def checked_options(
    arguments: Sequence[Argument], known: Options, what: str, evaluator: Evaluator, frame: Frame
) -> dict[str, OptionValue]:
    """The values of options by name, each of its type and within its limits. Raises SourceError."""
    found: dict[str, OptionValue] = {}
    for argument in arguments:
        if argument.name is None:
            raise fail("E0603", f"an option of {what} needs a name", argument.span, hint=_names(known))
        name = argument.name.name
        if name not in known:
            hint = did_you_mean(name, known, _names(known))
            raise fail("E0604", f"{what} has no option '{name}'", argument.name.span, hint=hint)
        if name in found:
            raise fail("E0212", f"'{name}' is given twice", argument.span)
        found[name] = _option(argument, name, known[name], evaluator, frame)
    return found


def _names(known: Options) -> str:
    return f"it has {listed(known)}" if known else "it has no options"


def _option(argument: Argument, name: str, option: Option, evaluator: Evaluator, frame: Frame) -> OptionValue:
    span = argument.value.span
    if option.type == "range":
        if stands_for_range(option, argument, lambda name: frame.find(name) is not None):
            return OptionValue("string", AUTO, span)
        return OptionValue("range", _sizes(evaluator.value(argument.value, frame), argument), span)
    value = coerced(evaluator.value(argument.value, frame), TYPES[option.type], span, f"'{name}'")
    if option.choices and value.data not in option.choices:
        hint = did_you_mean(str(value.data), option.choices, f"it can be {listed(option.choices, 'or')}")
        raise fail("E0605", f"'{name}' cannot be \"{value.data}\"", span, hint=hint)
    if option.least is not None and value.data < option.least:
        raise fail("E0605", f"'{name}' must be at least {option.least}", span)
    return OptionValue(option.type, Fraction(value.data) if option.type == "time" else value.data, span)


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
    low, high = int(data.low), int(data.high)
    if not 0 <= low <= high:
        raise fail("E0605", "the range of sizes is empty", argument.value.span)
    return low, high
