"""The rules of the house (docs/architecture.md), read off the imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "collc"

LEAVES = {"units", "diagnostics", "version", "options", "wording"}
CHECKERS = {"synthesis", "verification", "simulation", "msccl"}

MAY_IMPORT: dict[str, set[str]] = {
    "units": set(),
    "version": set(),
    "diagnostics": {"units"},
    "options": {"diagnostics"},
    "wording": set(),
    "codes": {"codes"} | LEAVES,
    "reading": LEAVES,
    "resources": LEAVES,
    "ten": {"ten", "resources"} | LEAVES,
    "kernels": {"kernels"},
    "synthesis": {"synthesis", "kernels", "ten"} | LEAVES,
    "verification": {"verification", "kernels", "ten"} | LEAVES,
    "simulation": {"simulation", "kernels", "ten"} | LEAVES,
    "msccl": {"msccl", "kernels", "ten"} | LEAVES,
    "source": {"source", "ten", "resources", "reading"} | LEAVES,
    "passes": {"passes", "ten", "kernels"} | CHECKERS | LEAVES,
    "pipeline": {"passes"} | LEAVES,
    "emit": {"emit", "ten", "files"} | CHECKERS | LEAVES,
}
"""Room -> what its files may import of ours. Rooms that are not named (driver, cli ...) are above all others."""


def modules() -> dict[str, Path]:
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports(path: Path, known: set[str]) -> set[str]:
    """Modules of ours that a file imports anywhere, late imports and those for types included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name for name in inner if name in known} or {node.module}
    return {name for name in found if name.split(".")[0] == "collc"}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


KNOWN = modules()
IMPORTS = {name: imports(path, set(KNOWN)) for name, path in KNOWN.items()}


@pytest.mark.parametrize("module", KNOWN)
def test_imports_run_one_way(module: str) -> None:
    allowed = MAY_IMPORT.get(room(module))
    if allowed is None:
        return
    strangers = {name for name in IMPORTS[module] if room(name) and room(name) not in allowed}
    assert not strangers, f"{module} imports {strangers}"


def test_the_rooms_below_import_nothing_from_above() -> None:
    above = {
        "cli",
        "commands",
        "driver",
        "building",
        "interrupts",
        "verifying",
        "named",
        "outputs",
        "proofs",
        "requests",
        "report",
        "terminal",
    }
    for module, found in IMPORTS.items():
        if room(module) in above or module in ("collc", "collc.__main__"):
            continue
        assert not {name for name in found if room(name) in above}, module


def way_of(module: str) -> str:
    """`collc.synthesis.pccl.steps` belongs to `pccl`, `collc.synthesis.auto_ways` to `auto`."""
    return module.split(".")[2].split("_", maxsplit=1)[0]


def test_one_way_of_synthesis_imports_no_other() -> None:
    shared = {"task", "bounds", "invert", "compose", "routing", "conditions", "dimensions"}
    together = {"auto"}
    for module, found in IMPORTS.items():
        if room(module) != "synthesis" or module.count(".") < 2:
            continue
        way = way_of(module)
        if way in together:
            continue
        others = {way_of(name) for name in found if name.startswith("collc.synthesis.")}
        strangers = others - shared - {way}
        assert not strangers, f"{module} imports {strangers}"


def test_the_file_checker_shares_nothing_with_the_writer() -> None:
    for module, found in IMPORTS.items():
        if module.startswith("collc.msccl.check"):
            assert not {n for n in found if n.startswith("collc.msccl") and not n.startswith("collc.msccl.check")}, (
                module
            )
        elif room(module) == "msccl":
            assert not {n for n in found if n.startswith("collc.msccl.check")} or "run" in module or "inspect" in module


def test_there_are_no_circles() -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path, module])
        if module in done:
            return
        for name in IMPORTS.get(module, ()):
            if name in KNOWN:
                visit(name, (*path, module))
        done.add(module)

    for module in KNOWN:
        visit(module, ())


def test_functions_fit_on_a_screen_and_files_in_a_head() -> None:
    for path in KNOWN.values():
        text = path.read_text()
        assert text.count("\n") <= 500, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 80, f"{path}:{node.lineno} {node.name}"


def test_a_broken_rule_is_seen(tmp_path: Path) -> None:
    """The reader of imports finds late ones and those of names, so that the tests above can fail."""
    file = tmp_path / "x.py"
    file.write_text("def f():\n    from collc.synthesis import task\n    import collc.cli\n")
    assert imports(file, set(KNOWN) | {"collc.cli"}) == {"collc.synthesis.task", "collc.cli"}
