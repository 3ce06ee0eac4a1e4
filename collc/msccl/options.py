"""Options of `emit msccl` and `emit mscclpp`, and how they are read from the statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.options import OptionValue


class Protocol(StrEnum):
    """A protocol of NCCL, by its name in the file."""

    SIMPLE = "Simple"
    LL = "LL"
    LL128 = "LL128"


class Profile(StrEnum):
    """The runtime that a file is for: msccl-executor-nccl, microsoft/msccl, RCCL, or collc's own (run files)."""

    EXECUTOR = "executor"
    OLD = "old"
    RCCL = "rccl"
    RUN = "run"


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


@dataclass(frozen=True, slots=True)
class MscclOptions:
    """Options of `emit msccl(...)`.

    instances: number of copies of the program, each with 1/instances of every chunk. channels: most channels; None:
    as many as the runtime allows. sizes: smallest and largest buffer in bytes, both included; None: no limit.
    placement: None: every one in which the program is right. custom: whether all runs are in one file, as the
    collective `custom` (`coll: "custom"`); else each run has a file. gpus_per_node: of plans, how many consecutive
    ranks map each other's memory; None: those that fast links join (`digraph.parts_of`). best_known: whether sizes
    are to be those for which the schedule is the best known (`sizes: auto`). same_offsets: of plans, whether tensors
    begin at one offset in their allocations on all ranks. dtype: of run files, the type of elements; "": any.
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
    same_offsets: bool = True
    dtype: str = ""


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "protocol": Protocol,
    "profile": Profile,
    "placement": Placement,
    "coll": lambda _value: True,
}
"""What the values of some options become."""


def msccl_options(values: Mapping[str, OptionValue], kind: str = "msccl") -> MscclOptions:
    """The options of a statement, from values that fit the record of their kind (`collc.emit.kinds`).

    kind: of the file; a kind of stages has the options of its files. Raises SourceError M0103 for sizes that no buffer
    has, and for `coll` with another runtime than the old one.
    """
    if (sizes := values.get("sizes")) is not None and sizes.value == (0, 0):
        raise SourceError(Diagnostic("M0103", "'sizes' ends at 0 bytes: no buffer is so small", sizes.span))
    given: dict[str, Any] = {
        name: _READERS.get(name, lambda value: value)(value.value) for name, value in values.items()
    }
    if given.get("sizes") == "auto":
        del given["sizes"]
        given["best_known"] = True
    given["custom"] = given.pop("coll", False)
    if kind == "run":
        given["profile"] = Profile.RUN
    options = MscclOptions(**given)
    if options.custom and options.profile is not Profile.OLD and kind != "mscclpp":
        message = "only the old runtime has the collective 'custom'"
        hint = "add 'profile: \"old\"', or leave out 'coll': each run then has a file"
        raise SourceError(Diagnostic("M0103", message, values["coll"].span, hint=hint))
    return options
