"""Binds arguments to the parameters of templates, collectives and algorithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from collc.base.diagnostics import Note, Span
from collc.base.wording import did_you_mean, phrase, plural
from collc.source.elaboration.containers import coerce
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.topology_parts import check_npus, device_label
from collc.source.elaboration.values import Value, npu_numbers
from collc.source.parsing.expressions import Argument
from collc.source.parsing.syntax import Parameter
from collc.source.problems import fail
from collc.source.types import ANY, GROUP, NAMED, QUANTITIES, Kind, Type


@dataclass(frozen=True, slots=True, eq=False)
class GivenArgument:
    """The value of an argument, and its span in the source."""

    value: Value
    span: Span


def parameter_type(parameter: Parameter) -> Type:
    """Its declared type; ANY if it has none or an unknown one (the static check reports that)."""
    return ANY if parameter.type is None else NAMED.get(parameter.type.name, ANY)


def may_be_left_out(parameter: Parameter) -> bool:
    """Whether it is a rate or time of a template without a default: it may be unknown if only the shape matters."""
    return parameter.default is None and parameter_type(parameter).kind in QUANTITIES - {Kind.BYTES}


def match_arguments(
    parameters: Sequence[Parameter], arguments: Sequence[Argument], what: str, span: Span, shapes: bool = False
) -> dict[str, Argument]:
    """The argument of each parameter that has one.

    what: the name of the callee in messages. shapes: whether rates and times may be left out. Raises SourceError if
    there are too many arguments, or one is unknown, given twice or missing.
    """
    found: dict[str, Argument] = {}
    names = [p.name.name for p in parameters]
    for place, argument in enumerate(arguments):
        if argument.name is not None:
            name = argument.name.name
            if name not in names:
                hint = did_you_mean(name, names, f"it takes {phrase(names)}" if names else "it takes no arguments")
                raise fail("E0212", f"{what} has no parameter '{name}'", argument.name.span, hint=hint)
        elif place < len(names):
            name = names[place]
        else:
            takes = plural(len(names), "argument")
            raise fail("E0212", f"{what} takes {takes}, this one is too many", argument.span)
        if name in found:
            first = Note("first here", found[name].span)
            raise fail("E0212", f"'{name}' is given twice", argument.span, first)
        found[name] = argument
    missing = [
        p.name.name
        for p in parameters
        if p.name.name not in found and p.default is None and not (shapes and may_be_left_out(p))
    ]
    if missing:
        raise fail("E0212", f"{what} also needs {phrase(missing)}", span)
    return found


def evaluated_arguments(
    parameters: Sequence[Parameter], matched: Mapping[str, Argument], evaluator: Evaluator, frame: Frame
) -> dict[str, GivenArgument]:
    """The values of arguments, converted to the types of their parameters. Raises SourceError."""
    given: dict[str, GivenArgument] = {}
    for parameter in parameters:
        name = parameter.name.name
        if name in matched:
            node = matched[name].value
            given[name] = GivenArgument(as_parameter(evaluator.value(node, frame), parameter, node.span), node.span)
    return given


def as_parameter(value: Value, parameter: Parameter, span: Span) -> Value:
    """A value, converted to the type of a parameter. Raises SourceError if it does not fit."""
    wanted = parameter_type(parameter)
    if wanted.kind is Kind.ANY:
        return value
    value = coerce(value, wanted, span, f"'{parameter.name.name}'")
    return checked_group(value, span) if wanted == GROUP else value


def checked_group(value: Value, span: Span) -> Value:
    """The group itself. Raises SourceError if it is empty, or contains a switch or an NPU twice."""
    numbers = npu_numbers(value)
    if len(numbers) == 0:
        raise fail("E0402", "this group is empty", span)
    check_npus(numbers, value.home, span)
    _, first = np.unique(numbers, return_index=True)
    if len(first) < len(numbers):
        number = int(np.delete(numbers, first)[0])
        name = device_label(value.home, number) if value.home is not None else f"npu {number}"
        raise fail("E0401", f"{name} is in the group twice", span)
    return value


def parameter_frame(
    parameters: Sequence[Parameter], given: Mapping[str, GivenArgument], evaluator: Evaluator, root: Frame
) -> Frame:
    """A frame with all parameters; a default can use the parameters before it.

    evaluator, root: of the file that declares the parameters.
    """
    frame = root.inner()
    for parameter in parameters:
        name = parameter.name.name
        if name in given:
            frame.names[name] = given[name].value
        elif parameter.default is not None:
            value = evaluator.value(parameter.default, frame)
            frame.names[name] = as_parameter(value, parameter, parameter.default.span)
        else:
            frame.names[name] = Value(parameter_type(parameter), None)
    return frame
