"""Runs tests against a mutant: in a fork of this process, where the code of the changed functions is replaced.

Nothing is imported anew, so a mutant that is killed at once takes a fraction of a second.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import time
import types
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.mutation.mutants import Mutant

ROOT = Path(__file__).parents[2]
PLAIN = (int, float, str, bytes, tuple, list, dict, set, frozenset, type(None))


def module_of(file: str) -> str:
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


def preload(files: Sequence[str], tests: Sequence[str]) -> None:
    """Import all that a mutant may need, before forks are made."""
    for file in files:
        importlib.import_module(module_of(file))
    for test in tests:
        paths = sorted((ROOT / test).rglob("test_*.py")) if (ROOT / test).is_dir() else [ROOT / test.split("::")[0]]
        for path in paths:
            importlib.import_module(module_of(str(path.relative_to(ROOT))))


def functions(owner: object, name: str) -> Iterator[tuple[str, types.FunctionType]]:
    """The functions that a module or a class defines itself, by qualified name."""
    for key, value in list(vars(owner).items()):
        for member in ("fget", "func", "__func__", "__wrapped__"):
            inner = getattr(value, member, None)
            if not isinstance(value, types.FunctionType | type) and isinstance(inner, types.FunctionType):
                yield inner.__qualname__, inner
        if isinstance(value, types.FunctionType) and value.__module__ == name:
            yield value.__qualname__, value
        elif isinstance(value, type) and value.__module__ == name and key == value.__name__:
            yield from functions(value, name)


def apply(mutant: Mutant) -> None:
    """Replace code and constants of the module by those of the mutant."""
    name = module_of(mutant.file)
    old = sys.modules[name]
    new = types.ModuleType(name)
    new.__dict__.update(__file__=old.__file__, __package__=old.__package__)
    exec(compile(mutant.source, str(old.__file__), "exec"), new.__dict__)
    changed = dict(functions(new, name))
    for qualified, function in functions(old, name):
        other = changed.get(qualified)
        if other is not None and len(other.__code__.co_freevars) == len(function.__code__.co_freevars):
            function.__code__ = other.__code__
            function.__defaults__, function.__kwdefaults__ = other.__defaults__, other.__kwdefaults__
    for key, value in list(vars(old).items()):
        other = vars(new).get(key, value)
        if key.startswith("__") or not isinstance(value, PLAIN) or repr(value) == repr(other):
            continue
        for module in list(sys.modules.values()):
            if vars(module).get(key) is value and module.__name__.startswith(("collc", "tests")):
                setattr(module, key, other)


def survives(mutant: Mutant | None, tests: Sequence[str], seconds: float) -> tuple[bool, float]:
    """Whether all tests pass on the mutant (None: on the code as it is), and how long they took.

    A mutant whose tests take more than `seconds` is killed.
    """
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _run(mutant, tests)
    end = began + seconds
    status = 1
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False, time.monotonic() - began
        time.sleep(0.02)
    return status == 0, time.monotonic() - began


def _run(mutant: Mutant | None, tests: Sequence[str]) -> None:
    """In the child: apply the mutant, run pytest, and end with its exit code."""
    os.setpgid(0, 0)
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        if mutant is not None:
            apply(mutant)
        code = int(pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", *tests]))
    except BaseException:
        code = 1
    finally:
        os._exit(code)
