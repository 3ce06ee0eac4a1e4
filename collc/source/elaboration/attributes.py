"""Attributes of devices and links, and labels: what the machine calls devices, as in `npu gpu[8] labels [...]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, Final

import numpy as np

from collc.base.diagnostics import Note, Span
from collc.base.wording import did_you_mean, phrase, plural
from collc.source.elaboration.arithmetic import text_of
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.values import Data, Frame, ListArray
from collc.source.host_lists import expanded_hosts, is_host_range
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import Argument, Expr
from collc.source.problems import fail
from collc.source.types import ANY, BOOL, INT, RATE, STRING, TIME, Type, list_of
from collc.ten.endpoint import DEFAULT_MODE, MEMORY_TRAFFIC, Endpoint
from collc.ten.network import DeviceFamily

RATES: Final = ("inject", "eject", "memory")
TIMES: Final = ("overhead", "launch")
ATTRIBUTES: Final[dict[str, dict[str, Type]]] = {
    "link": {"bandwidth": RATE, "latency": TIME, "overhead": TIME},
    "switch": {"multicast": BOOL, "buffer": INT, "reduce": BOOL},
    "npu": {**dict.fromkeys(RATES, RATE), "endpoint": STRING, **dict.fromkeys(TIMES, TIME)},
    "failures": {"bandwidth": ANY},
}
"""The attributes of links, switches and NPUs, and what failed parts keep: a rate or a number. With their types."""

Attributed = s.DeviceDeclaration | s.ChangedDevice | s.LinkDeclaration | s.LinkMatrix | s.ChangedLink | s.Failing


def endpoint_of(given: Mapping[str, Any], arguments: Sequence[Argument], span: Span) -> Endpoint:
    """The limits and times with some attributes, by name. span: of what has them. Raises SourceError."""
    places = {argument.name.name: argument.span for argument in arguments if argument.name is not None}
    rates: list[Fraction | None] = []
    for name in RATES:
        rate = given.get(name)
        if rate is not None and rate <= 0:
            raise fail("E0306", f"a rate '{name}' of {text_of(rate, RATE)} is not more than 0", places.get(name, span))
        rates.append(None if rate is None else Fraction(rate))
    mode = given.get("endpoint", DEFAULT_MODE)
    if mode not in MEMORY_TRAFFIC:
        hint = did_you_mean(mode, MEMORY_TRAFFIC, f"there are {phrase(MEMORY_TRAFFIC)}")
        raise fail("E0326", f"unknown kind of endpoint '{mode}'", places.get("endpoint", span), hint=hint)
    if "endpoint" in given and rates[2] is None:
        hint = f'give the rate of the memory too: memory: 300GB/s, endpoint: "{mode}"'
        raise fail("E0326", "'endpoint' has no effect without 'memory'", places.get("endpoint", span), hint=hint)
    overhead, launch = (whole_time(given.get(name, 0), name, places.get(name, span)) for name in TIMES)
    return Endpoint(*rates, mode=mode, overhead=overhead, launch=launch)


def whole_time(time: Any, name: str, span: Span, note: Note | None = None) -> int:  # noqa: ANN401 (a number of the language)
    """The picoseconds of a latency, an overhead or a launch. Raises SourceError E0310 if it is not valid."""
    whole = Fraction(time).denominator == 1
    why = "negative" if time < 0 else "too large" if whole else "not a whole number of picoseconds"
    if not whole or not 0 <= time < 2**62:
        article = "an" if name[0] == "o" else "a"
        raise fail("E0310", f"{article} {name} of {text_of(time, TIME)} is {why}", span, note)
    return int(time)


def endpoint_with(before: Endpoint, given: Mapping[str, Any], arguments: Sequence[Argument], span: Span) -> Endpoint:
    """The limits with some attributes, and the limits from before for the others. Raises SourceError."""
    kept = {name: value for name in (*RATES, *TIMES) if (value := getattr(before, name)) is not None}
    mode = {} if before.memory is None else {"endpoint": before.mode}
    return endpoint_of({**kept, **mode, **given}, arguments, span)


def given_attributes(node: Attributed, frame: Frame, evaluator: Evaluator) -> dict[str, Data]:
    """The attributes of a device or link by name, without unknown rates and times of templates. Raises SourceError."""
    known = ATTRIBUTES[node.kind if isinstance(node, s.DeviceDeclaration | s.ChangedDevice) else "link"]
    data = {a.key: evaluator.coerce(a.value, frame, known[a.key], a.key).data for a in node.attributes}
    if "buffer" in data and not 1 <= data["buffer"] < 2**31:
        message = f"a buffer cannot have room for {data['buffer']:,} chunks"
        raise fail("E0304", message, node.span, hint="leave 'buffer' out for no limit")
    return {name: value for name, value in data.items() if value is not None}


def labels_of(
    node: Expr | None, count: int, frame: Frame, evaluator: Evaluator, last: int | None = None
) -> tuple[str, ...]:
    """The labels of `count` devices or copies; () if none are given. `host[1-4]` stands for four labels. last: another
    number of labels that may be given.

    Raises SourceError E0329 if there are more or fewer.
    """
    if node is None:
        return ()
    value = evaluator.value(node, frame)
    if value.type == STRING:
        texts = [str(value.data)]
    else:
        data = evaluator.coerce(node, frame, list_of(STRING), "labels").data
        items = data.uniform_items() if isinstance(data, ListArray) else data
        assert isinstance(items, np.ndarray)
        texts = [str(item) for item in items.tolist()]
    labels: list[str] = []
    for text in texts:
        try:
            labels += expanded_hosts(text, count) if is_host_range(text) else [text]
        except ValueError:
            labels.append(text)
        except OverflowError as error:
            raise fail("E0329", f"{error}, but there must be {plural(count, 'label')}", node.span) from None
        if len(labels) > count:
            break
    if len(labels) not in (count, last):
        given = f"more than {plural(count, 'label')}" if len(labels) > count else plural(len(labels), "label")
        hint = "one for each device or copy, the last index counting fastest"
        raise fail("E0329", f"{given}, but there must be {count}", node.span, hint=hint)
    return tuple(labels)


def labels_inside(host: str, family: DeviceFamily) -> tuple[str, ...]:
    """The labels of devices of a copy that has the label `host`; "" for none."""
    if not host:
        return family.labels
    own = family.labels
    if not own:
        indices = product(*map(range, family.shape))
        own = tuple(f"{family.name}[{', '.join(map(str, i))}]" if i else family.name for i in indices)
    return tuple(f"{host}/{label}" for label in own)
