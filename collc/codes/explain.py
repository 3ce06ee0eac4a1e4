"""`collc explain`: the entry of a code as text."""

from __future__ import annotations

from textwrap import indent

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.wording import closest_name
from collc.codes import catalogue


def explain(code: str) -> str:
    """The explanation of a code, with a wrong and a right program. Raises UsageError for an unknown code."""
    codes = catalogue()
    known = codes.get(code.strip().upper())
    if known is None:
        close = closest_name(code.strip().upper(), codes, edits=1)
        hint = f"did you mean '{close}'?" if close else "codes look like 'E0101'; a message shows its own in brackets"
        raise UsageError(Diagnostic("U0113", f"there is no code '{code}'", hint=hint))
    parts = [f"{known.code}: {known.title}", known.explanation.strip()]
    for title, program in (("Wrong:", known.wrong), ("Right:", known.right)):
        if program:
            parts.append(f"{title}\n\n{indent(program.strip(chr(10)), '    ')}")
    return "\n\n".join(parts)
