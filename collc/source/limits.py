"""Upper limits of sizes and of nesting. They are checked before memory is allocated."""

from __future__ import annotations

from typing import Final

from collc.base.diagnostics import SourceError, Span
from collc.base.memory import require
from collc.source.problems import fail

MAX_BYTES: Final = 16 * 2**20
"""Bytes of the largest source file that is accepted."""
MAX_ERRORS: Final = 50
"""Syntax errors that are reported of one file."""
MAX_NESTING: Final = 64
"""Blocks, brackets and operators inside one another."""
MAX_LINKS: Final = 10_000_000
MAX_CHUNKS: Final = 10_000_000
CHUNK_BYTES: Final = 200
"""Bytes that a chunk takes at most while its collective is expanded."""
MAX_DEVICES: Final = 10_000_000
MAX_FAMILIES: Final = 1_000_000
MAX_ITERATIONS: Final = 20_000_000
MAX_ITEMS: Final = 20_000_000
MAX_ARGUMENTS: Final = 1_000
"""Arguments, parameters, indices or loop variables in one place: the parser keeps 500 bytes of each."""
MAX_CHARACTERS: Final = 1_000_000
MAX_HOST_LETTERS: Final = 253
"""Characters of the name of a host (RFC 1035): a list of few characters could otherwise stand for gigabytes."""
MAX_LETTERS: Final = 255
"""Characters of a name: each device of an array and each chunk of a family has a name that repeats it."""
MAX_DEPTH: Final = 64
MAX_LOOP_DEPTH: Final = 256
MAX_BITS: Final = 4096
MAX_RUNS: Final = 100_000
MAX_FAILURES: Final = 200_000
MAX_CLASSES: Final = 1_000
"""Classes of failures of a schedule, each of which has a plan of its own."""
MAX_EXPANSIONS: Final = 10_000
MAX_FOLDERS: Final = 10_000
"""Folders of a workspace in which the language server looks for programs."""

_CODES: Final[dict[str, tuple[str, int]]] = {
    "links": ("E0802", MAX_LINKS),
    "chunks": ("E0803", MAX_CHUNKS),
    "NPUs and switches": ("E0804", MAX_DEVICES),
    "arrays of devices": ("E0804", MAX_FAMILIES),
    "iterations": ("E0805", MAX_ITERATIONS),
    "items of a list": ("E0809", MAX_ITEMS),
    "characters of a string": ("E0809", MAX_CHARACTERS),
    "statements of a schedule": ("E0808", MAX_RUNS),
    "failures of a schedule": ("E0810", MAX_FAILURES),
    "expansions of templates": ("E0806", MAX_EXPANSIONS),
}


def check_count(what: str, count: int, span: Span) -> None:
    """Raise SourceError if a count exceeds its limit; what: "links", "chunks" or another key of the table above."""
    code, limit = _CODES[what]
    if count > limit:
        raise fail(code, f"{count:,} {what} exceed the limit of {limit:,}", span)


def check_chunks(count: int, span: Span) -> None:
    """Raise SourceError if there are too many chunks (E0803), or more than there is memory for (U0109)."""
    check_count("chunks", count, span)
    require(CHUNK_BYTES * count, f"{count:,} chunks", "use fewer chunks", span)


def uses_too_deep(span: Span) -> SourceError:
    """The error for a value whose evaluation takes more nested calls than Python allows."""
    hint = "declare each value before it is used"
    return fail("E0806", "this value uses other values that are nested too deep", span, hint=hint)


def too_deep(what: str, span: Span) -> SourceError:
    """The error for templates or files that use one another more than MAX_DEPTH levels deep."""
    return fail("E0806", f"{what} goes deeper than {MAX_DEPTH} levels", span, hint="does it use itself?")


def check_loop_depth(depth: int, span: Span) -> None:
    """Raise SourceError if more than MAX_LOOP_DEPTH loop variables and bodies are inside one another."""
    if depth > MAX_LOOP_DEPTH:
        raise fail("E0806", f"loops are nested deeper than {MAX_LOOP_DEPTH} levels", span)
