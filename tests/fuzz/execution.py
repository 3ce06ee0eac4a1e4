"""Runs a case in this process and judges it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import shutil
import time
from pathlib import Path
from typing import Final

from collc.command.cli import main
from tests.fuzz.cases import Case

MOST_SECONDS: Final = 10.0
"""Of processor time, for any command on a file of up to 1 MB."""
MOST_MEMORY: Final = 1 << 30
"""Bytes that a command may add to what the process had before."""

PLACED: Final = re.compile(r"E0[1-6]\d\d|E09\d\d|T01(?!10)\d\d|X01\d\d|X04\d\d")
"""Codes of messages about the content of a file."""
WITHOUT_PLACE: Final = re.compile(r"\d+ more of this kind|definition of \S+: ")
"""Messages that count others, and those about `-D`."""


def run_case(case: Case, folder: Path) -> list[str]:
    """What is wrong with how collc takes a case; nothing if all is well. folder: gets emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in case.files.items():
        path = folder / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    out, err = io.StringIO(), io.StringIO()
    memory, began, here = _peak(), time.process_time(), Path.cwd()
    code: object = None
    os.chdir(work)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(case.words)
    except SystemExit as error:
        code = error.code
    finally:
        os.chdir(here)
    seconds, more = time.process_time() - began, _peak() - memory
    found = _judged(code, out.getvalue(), err.getvalue(), case)
    if seconds > MOST_SECONDS:
        found.append(f"{seconds:.1f} s of processor time")
    if more > MOST_MEMORY:
        found.append(f"{more >> 20} MiB of memory")
    return found + _changes(case, folder, code, out.getvalue())


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _judged(code: object, out: str, err: str, case: Case) -> list[str]:
    found: list[str] = []
    if code not in (0, 1, 2, 3, 4, None):
        found.append(f"exit code {code}")
    if "Traceback" in err or "internal error" in err:
        found.append("an internal error: " + err[-600:])
    if code and not err.strip() and not out.strip():
        found.append(f"exit code {code} without a word of the reason")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", err):
        found.append("control characters in messages")
    if "--json" in case.words and out:
        found += _messages(out)
    return found


def _messages(out: str) -> list[str]:
    """What is wrong with the messages of a JSON answer."""
    try:
        messages = json.loads(out).get("diagnostics", [])
    except (ValueError, AttributeError):
        return ["no JSON: " + out[:200]]
    found: list[str] = []
    for message in messages:
        code = message["code"]
        if not code or not message["message"].strip():
            found.append(f"an empty message {message}")
        notes = [note for note in message["notes"] if note["line"]]
        counted = WITHOUT_PLACE.match(message["message"])
        if PLACED.fullmatch(code) and not counted and message["line"] is None and not notes:
            found.append(f"{code} without a place: {message['message'][:200]}")
    return found


def _changes(case: Case, folder: Path, code: object, out: str) -> list[str]:
    """Files that were there and are not as they were after an error, and what is left that nobody was told of."""
    work = folder / "work"
    beside = [path.name for path in folder.iterdir() if path != work]
    found = [f"files outside of the folder: {beside}"] if beside else []
    if code in (0, None):
        return found
    written: set[str] = set()
    with contextlib.suppress(ValueError, AttributeError, TypeError, KeyError):
        written = {name for schedule in json.loads(out).get("schedules", []) for name in schedule["files"]}
    listed = "--json" in case.words
    for name, data in case.files.items():
        path = work / name
        if not path.exists() or (path.read_bytes() != data and listed and name not in written):
            found.append(f"{name} was changed")
    partial = [path.name for path in work.rglob("*") if path.name.startswith(".") or path.suffix == ".tmp"]
    return found + ([f"left behind: {partial}"] if partial else [])
