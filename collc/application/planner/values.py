"""Requests as mappings, as Python's keywords and JSON give them. Nothing that is not checked gets into a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from operator import index
from typing import Any, Final, cast

from collc.application.planner.requests import GroupRun, PlanRequest
from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.units import PICOSECONDS, Dimension, format_bytes, quantity_in
from collc.base.wording import did_you_mean, phrase
from collc.ten.link_model import LinkModel
from collc.ten.standard_collectives import shapes

RUNTIMES: Final = ("msccl", "mscclpp", "run")
"""Kinds of files that a request may ask for."""

_WORD: Final = re.compile(r"[a-z]{1,8}")
_SHARE: Final = re.compile(r"0\.[0-9]{1,20}|[0-9]{1,9}/[1-9][0-9]{0,8}")
_PART: Final = re.compile(r"[\w\[\], .*<>-]{1,200}")


def _fail(name: str, expected: str, value: object) -> UsageError:
    return UsageError(Diagnostic("U0163", f"{name}: {expected} is expected, not {str(value)[:60]!r}"))


@cache
def parameters(collective: str) -> dict[str, str]:
    """The type of each parameter of a standard collective but its group. Raises UsageError U0163 if there is none."""
    from collc.source.parsing import syntax
    from collc.source.parsing.parse import parse_library

    if collective not in shapes():
        hint = did_you_mean(collective, shapes(), f"there are {phrase(shapes())}")
        raise UsageError(Diagnostic("U0163", f"collective: there is no '{collective[:60]}'", hint=hint))
    nodes = parse_library("collectives").statements
    node = next(n for n in nodes if isinstance(n, syntax.Collective) and n.name.name == collective)
    return {p.name.name: p.type.name if p.type is not None else "set" for p in (node.parameters or ())[1:]}


def _integer(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise _fail(name, "a whole number", value)
    return str(value)


def _size(name: str, value: object, least: int = 1) -> str:
    size = quantity_in(value, Dimension.BYTES) if isinstance(value, str) else value if isinstance(value, int) else None
    if size is None or isinstance(value, bool) or size.denominator != 1 or not least <= size < 2**60:
        raise _fail(name, "a size, as 1GiB or a number of bytes,", value)
    return format_bytes(int(size))


def _elements(name: str, expected: str, value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise _fail(name, expected, value)
    return cast("Sequence[object]", value)


def _text_of(name: str, kind: str, value: object) -> str:
    """The value of a parameter as text of `.coll`. kind: its type. Raises UsageError U0163."""
    if kind == "bytes":
        return _size(name, value)
    if kind == "string":
        if not isinstance(value, str) or not _WORD.fullmatch(value):
            raise _fail(name, "a word", value)
        return f'"{value}"'
    if kind == "list":  # of all_to_allv: what each member sends to each one
        rows = [
            f"[{', '.join(_size(name, size, 0) for size in _elements(name, 'a list of sizes', row))}]"
            for row in _elements(name, "a list of lists of sizes", value)
        ]
        return f"[{', '.join(rows)}]"
    if kind == "set" and isinstance(value, list | tuple):
        return f"{{{', '.join(_integer(name, each) for each in cast('Sequence[object]', value))}}}"
    return "auto" if value == "auto" and name == "chunks" else _integer(name, value)


def run_of(values: Mapping[str, Any]) -> GroupRun:
    """A run: `collective`, `npus`, and the arguments of the collective; `chunks` is "auto" if it is missing. Raises
    UsageError U0163.
    """
    collective, npus = values.get("collective"), values.get("npus")
    if not isinstance(collective, str):
        raise _fail("collective", "the name of a collective", collective)
    known = parameters(collective)
    given = {name: value for name, value in values.items() if name not in ("collective", "npus") and value is not None}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known, f"it has {phrase(known)}")
            raise UsageError(Diagnostic("U0163", f"'{collective}' has no '{name[:60]}'", hint=hint))
    given = ({"chunks": "auto"} if "chunks" in known else {}) | given
    needed = next((name for name in ("size", "sizes") if name in known and name not in given), None)
    if needed is not None:
        raise UsageError(Diagnostic("U0163", f"'{collective}' needs '{needed}'"))
    if npus is not None:
        npus = _group(npus)
    return GroupRun(collective, npus, tuple((name, _text_of(name, known[name], given[name])) for name in sorted(given)))


def _group(npus: object) -> tuple[int, ...]:
    if not isinstance(npus, Iterable) or isinstance(npus, str | dict):
        raise _fail("npus", "a list of numbers", repr(cast("object", npus)))
    members: list[int] = []
    for member in cast("Iterable[Any]", npus):
        try:
            members.append(index(member))
        except TypeError:
            raise _fail("npus", "a list of numbers", member) from None
        if isinstance(member, bool):
            raise _fail("npus", "a list of numbers", member)
    return tuple(members)


def seconds_of(within: object) -> float | None:
    """Seconds of a deadline: "1s", "100ms", or a number of seconds up to 10^9; None for none.

    Raises UsageError U0163.
    """
    if within is None:
        return None
    time = quantity_in(within, Dimension.TIME) if isinstance(within, str) else None
    number = within if isinstance(within, int | float) and not isinstance(within, bool) else 0
    seconds = number if time is None else time / PICOSECONDS
    if not 0 < seconds <= 1e9 or not float(seconds):
        raise _fail("within", "a time, as 1s or a number of seconds,", within)
    return float(seconds)


def request_of(values: Mapping[str, Any]) -> PlanRequest:
    """A request: the keys of a run, `beside`, `dead`, `slow`, `runtime` and `link_model`. Raises UsageError U0163."""
    own = dict(values)
    beside, dead = own.pop("beside", None) or (), own.pop("dead", None) or ()
    runtime, model = own.pop("runtime", None) or "", own.pop("link_model", None) or "pipelined"
    others = cast("Sequence[object]", beside)
    if not isinstance(beside, list | tuple) or not all(isinstance(each, Mapping) for each in others):
        raise _fail("beside", "a list of runs", type(others).__name__)
    dead = (dead,) if isinstance(dead, str) else dead
    if not isinstance(dead, list | tuple):
        raise _fail("dead", "a list of names of parts", dead)
    slow = cast("object", own.pop("slow", None) or {})
    if not isinstance(slow, Mapping):
        raise _fail("slow", "bandwidths by names of parts", slow)
    for key, names in (("dead", cast("Sequence[object]", dead)), ("slow", cast("Mapping[object, object]", slow))):
        for name in names:
            if not isinstance(name, str) or not _PART.fullmatch(name):
                raise _fail(key, "the name of a part, as nic[3, 5],", name)
    slower = tuple((name, *_share_or_rate(left)) for name, left in cast("Mapping[str, object]", slow).items())
    if runtime not in ("", *RUNTIMES):
        raise _fail("runtime", phrase(RUNTIMES, "or"), runtime)
    if model not in [*LinkModel]:
        raise _fail("link_model", phrase([*LinkModel], "or"), model)
    runs = (run_of(own), *(run_of(cast("Mapping[str, Any]", each)) for each in others))
    return PlanRequest(runs, tuple(cast("Sequence[str]", dead)), slower, runtime, model)


def _share_or_rate(bandwidth: object) -> tuple[Fraction, bool]:
    """What is left of a bandwidth, and whether it is bytes a second, not a share: "25GB/s", "1/2" or 0.5. Raises
    UsageError U0163.
    """
    rate = quantity_in(bandwidth, Dimension.RATE) if isinstance(bandwidth, str) else None
    share = str(bandwidth) if isinstance(bandwidth, str | float) else ""
    if rate is None and not _SHARE.fullmatch(share):
        raise _fail("slow", "a bandwidth, as 25GB/s, or the share that is left, as 1/2,", bandwidth)
    return (Fraction(share), False) if rate is None else (rate, True)
