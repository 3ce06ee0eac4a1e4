"""`chunks: auto`: the run of a standard collective for which collc picks the number of chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from collc.source.parsing.expressions import Argument, Call, IntLiteral, Name
from collc.source.parsing.syntax import Parameter
from collc.source.problems import fail

AUTO: Final = "auto"
CHUNKS: Final = "chunks"
MODULE: Final = "std.collectives"
"""The module of the standard library with the collectives."""


@dataclass(frozen=True, slots=True, eq=False)
class RunCall:
    """The call of a run, with `chunks: 1` in place of `chunks: auto`; automatic: whether that was there."""

    call: Call
    automatic: bool

    @staticmethod
    def of(
        call: Call, parameters: Sequence[Parameter], module: str | None, is_declared: Callable[[str], bool]
    ) -> RunCall:
        """parameters, module: of the collective; module: of the standard library, or None. is_declared: whether the
        program declares a name: then it is `auto` that means that value.

        Raises SourceError E0417 if the collective is not in the standard library.
        """
        names = [parameter.name.name for parameter in parameters]
        for place, argument in enumerate(call.arguments):
            name = argument.name.name if argument.name is not None else names[place] if place < len(names) else ""
            value = argument.value
            if name != CHUNKS or not isinstance(value, Name) or value.name != AUTO or is_declared(AUTO):
                continue
            if module != MODULE:
                message = f"'{call.function.name}' is not a collective of {MODULE}, so 'chunks' must be a number"
                hint = f"write chunks: 4, or run a collective of {MODULE}"
                raise fail("E0417", message, value.span, hint=hint)
            one = Argument(argument.span, argument.name, IntLiteral(value.span, 1))
            arguments = tuple(one if other is argument else other for other in call.arguments)
            return RunCall(Call(call.span, call.function, arguments), automatic=True)
        return RunCall(call, automatic=False)
