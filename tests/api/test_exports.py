"""The names that `import collc` exports, and the modules that it imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import collc

HEAVY = ("numpy", "numba", "lark", "lxml", "networkx", "z3", "rich", "scipy")
SOURCE = Path(collc.__file__).read_text()


def test_importing_collc_imports_none_of_the_large_packages() -> None:
    """`import collc` takes less than 0.1 s only if it imports no large package."""
    code = f"import sys, collc; print(sorted(m for m in sys.modules if m.startswith('collc') or m in {HEAVY}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ast.literal_eval(found.stdout) == ["collc", "collc.version"]


def test_every_exported_name_can_be_imported() -> None:
    for name in collc.__all__:
        assert getattr(collc, name) is not None
    assert set(dir(collc)) > set(collc.__all__)


def test_type_checkers_see_what_is_imported_at_run_time() -> None:
    """The imports under TYPE_CHECKING and the table of modules are the same."""
    found = {
        alias.name: node.module
        for block in ast.parse(SOURCE).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert found == collc._MODULES
    assert set(collc.__all__) == {*found, "__version__"}


def test_every_collective_of_the_standard_library_is_a_function() -> None:
    text = (Path(collc.__file__).parent.parent / "stdlib" / "collectives.coll").read_text()
    names = re.findall(r"(?m)^collective (\w+)", text)
    assert {"all_reduce", "all_to_allv"} < set(names) <= set(dir(collc))
    assert all(getattr(collc, name).__name__ == name for name in names)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'collc' has no attribute 'complie'"):
        collc.complie  # noqa: B018  # pyright: ignore
