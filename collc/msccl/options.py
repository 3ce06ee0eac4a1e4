"""Options of `emit msccl` and `emit mscclpp`, and how they are read from the statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.options import OptionValue


class Protocol(StrEnum):
    """A protocol of NCCL, by its name in the file."""

    SIMPLE = "Simple"
    LL = "LL"
    LL128 = "LL128"


class Profile(StrEnum):
    """The runtime that a file is for: msccl-executor-nccl, microsoft/msccl or RCCL."""

    EXECUTOR = "executor"
    OLD = "old"
    RCCL = "rccl"


class Placement(StrEnum):
    """Whether input and output of a call share memory (in place), do not (out of place), or either."""

    IN = "in"
    OUT = "out"
    BOTH = "both"

    @property
    def in_place(self) -> bool:
        """Whether calls in place are served."""
        return self is not Placement.OUT

    @property
    def out_of_place(self) -> bool:
        """Whether calls out of place are served."""
        return self is not Placement.IN


class _Coll(StrEnum):
    """What `coll` can be; without it, each file has the collective of its run."""

    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class MscclOptions:
    """Options of `emit msccl(...)`.

    instances: number of copies of the program, each with 1/instances of every chunk. channels: most channels; None:
    as many as the runtime allows. sizes: smallest and largest buffer in bytes, both included; None: no limit.
    placement: None: every one in which the program is right. custom: whether all runs are in one file, as the
    collective `custom` (`coll: "custom"`); else each run has a file. gpus_per_node: of plans, how many consecutive
    ranks map each other's memory; None: those that fast links join (`node_parts.parts_of`). best_known: whether sizes
    are to be those for which the schedule is the best known (`sizes: auto`).
    """

    instances: int = 1
    protocol: Protocol = Protocol.SIMPLE
    channels: int | None = None
    sizes: tuple[int, int | None] = (0, None)
    profile: Profile = Profile.EXECUTOR
    placement: Placement | None = None
    custom: bool = False
    gpus_per_node: int | None = None
    best_known: bool = False


def options_of(values: Mapping[str, OptionValue], *, plan: bool = False) -> MscclOptions:
    """The options of an `emit msccl` statement, from the values that it gives by name. plan: of `emit mscclpp`.

    Raises SourceError with a message for each wrong one: M0101 unknown option, M0102 wrong type, M0103 value out of
    range.
    """
    options = MscclOptions()
    problems: list[Diagnostic] = []
    for name, value in values.items():
        reader = _READERS.get(name) or (_OF_PLANS.get(name) if plan else None)
        if reader is None:
            hint = "an MSCCL file has the options " + ", ".join(_READERS)
            problems.append(Diagnostic("M0101", f"'emit msccl' has no option '{name}'", value.span, hint=hint))
            continue
        try:
            options = reader(options, value)
        except SourceError as error:
            problems += error.diagnostics
    if options.custom and options.profile is not Profile.OLD and not plan:
        message = "only the old runtime has the collective 'custom'"
        hint = "add 'profile: \"old\"', or leave out 'coll': each run then has a file"
        problems.append(Diagnostic("M0103", message, values["coll"].span, hint=hint))
    if problems:
        raise SourceError(*problems)
    return options


_NOT_IN_PLANS: Final = {
    "profile": ("there is one runtime for plans", "leave it out"),
    "channels": ("a plan has as many channels as it needs", "leave it out; more 'instances' have more threadblocks"),
}


def plan_options_of(values: Mapping[str, OptionValue]) -> MscclOptions:
    """The options of an `emit mscclpp` statement: instances, protocol, sizes, placement, coll and gpus_per_node.

    Raises SourceError as `options_of` does, also M0101 for options that only MSCCL files have and M0103 for both
    placements.
    """
    problems = [
        Diagnostic("M0101", f"'emit mscclpp' has no option '{name}': {reason}", value.span, hint=hint)
        for name, value in values.items()
        if name in _NOT_IN_PLANS
        for reason, hint in [_NOT_IN_PLANS[name]]
    ]
    if problems:
        raise SourceError(*problems)
    options = options_of(values, plan=True)
    if options.protocol is Protocol.LL128:
        message = "plans have the protocols Simple and LL"
        raise SourceError(Diagnostic("M0103", message, values["protocol"].span, hint='write "LL" for small messages'))
    if options.placement is Placement.BOTH:
        message = "a plan is either in place or out of place"
        hint = "write 'placement: \"in\"' or 'placement: \"out\"', or emit one plan for each"
        raise SourceError(Diagnostic("M0103", message, values["placement"].span, hint=hint))
    return options


def _type_error(name: str, value: OptionValue, expected: str) -> SourceError:
    message = f"'{name}' of an MSCCL file is {expected}, not a {value.type}"
    return SourceError(Diagnostic("M0102", message, value.span))


def _whole_number(name: str, value: OptionValue, rule: str, most: int | None = None) -> int:
    """The value of an option of at least 1 and, unless None, at most `most`. rule: the range in words."""
    if isinstance(value.value, bool) or not isinstance(value.value, int) or value.type == "bytes":
        raise _type_error(name, value, "a number")
    if value.value < 1 or (most is not None and value.value > most):
        raise SourceError(Diagnostic("M0103", f"'{name}: {value.value}' is out of range: {rule}", value.span))
    return value.value


def _channels(name: str, value: OptionValue) -> int:
    return _whole_number(name, value, "a runtime has 1 to 32 channels", 32)


def _choice(name: str, value: OptionValue, kind: type[StrEnum]) -> str:
    names = [str(member.value) for member in kind]
    if not isinstance(value.value, str):
        raise _type_error(name, value, "one of " + ", ".join(f'"{n}"' for n in names))
    same = [n for n in names if n.lower() == value.value.lower()]
    if value.value not in names:
        message = f"'{name}: \"{value.value}\"' is not known to MSCCL"
        hint = f'did you mean "{same[0]}"?' if same else "write one of " + ", ".join(f'"{n}"' for n in names)
        raise SourceError(Diagnostic("M0103", message, value.span, hint=hint))
    return value.value


def _sizes(value: OptionValue) -> tuple[int, int]:
    found = value.value
    if not isinstance(found, tuple):
        raise _type_error("sizes", value, "a range of sizes such as 64MiB .. 4GiB")
    low, high = found
    if not 0 <= low <= high or high == 0:
        message = f"'sizes' runs from {low} to {high} bytes: no buffer has such a size"
        raise SourceError(Diagnostic("M0103", message, value.span, hint="write the smaller size first"))
    return low, high


_READERS: Final[dict[str, Callable[[MscclOptions, OptionValue], MscclOptions]]] = {
    "instances": lambda o, v: replace(o, instances=_channels("instances", v)),
    "protocol": lambda o, v: replace(o, protocol=Protocol(_choice("protocol", v, Protocol))),
    "channels": lambda o, v: replace(o, channels=_channels("channels", v)),
    "sizes": lambda o, v: replace(o, best_known=True) if v.value == "auto" else replace(o, sizes=_sizes(v)),
    "profile": lambda o, v: replace(o, profile=Profile(_choice("profile", v, Profile))),
    "placement": lambda o, v: replace(o, placement=Placement(_choice("placement", v, Placement))),
    "coll": lambda o, v: replace(o, custom=bool(_choice("coll", v, _Coll))),
}

_OF_PLANS: Final[dict[str, Callable[[MscclOptions, OptionValue], MscclOptions]]] = {
    "gpus_per_node": lambda o, v: replace(
        o, gpus_per_node=_whole_number("gpus_per_node", v, "a node has at least one GPU")
    ),
}
