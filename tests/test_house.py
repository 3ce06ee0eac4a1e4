"""The rules of docs/architecture.md, tested on the imports of all modules."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "collc"

BELOW = {"base", "version"}
"""What every folder may import."""

MAY_IMPORT: dict[str, set[str]] = {
    "version": set(),
    "base": BELOW,
    "codes": {"codes"} | BELOW,
    "tuning": {"tuning", "simulation", "graph", "kernels", "ten"} | BELOW,
    "parallel": {"parallel"} | BELOW,
    "kernels": {"kernels", "ten"} | BELOW,
    "graph": {"graph", "kernels", "ten"} | BELOW,
    "ten": {"ten"} | BELOW,
    "smt": {"smt", "graph", "ten"} | BELOW,
    "synthesis": {"synthesis", "simulation", "smt", "graph", "kernels", "ten"} | BELOW,
    "verification": {"verification", "smt", "graph", "kernels", "ten"} | BELOW,
    "simulation": {"simulation", "graph", "kernels", "ten"} | BELOW,
    "chakra": {"chakra", "simulation", "graph", "kernels", "ten"} | BELOW,
    "runtime": {"runtime"},
    "torch": {"torch", "runtime"},
    "mpi": {"mpi", "runtime"},
    "spmd": {"spmd", "runtime", "graph"},
    "jax": {"jax", "spmd", "runtime"},
    "msccl": {"msccl", "runtime", "simulation", "graph", "kernels", "ten"} | BELOW,
    "design": {"design", "ten"} | BELOW,
    "source": {"source", "emit", "passes", "graph", "ten"} | BELOW,
    "machines": {"machines", "source", "simulation", "graph", "ten"} | BELOW,
    "passes": {"passes", "synthesis", "verification", "ten"} | BELOW,
    "emit": {"emit", "chakra", "design", "msccl", "runtime", "simulation", "ten"} | BELOW,
    "lab": {"lab", "emit", "msccl", "runtime", "simulation", "ten"} | BELOW,
    "pictures": {"pictures", "simulation", "graph", "ten"} | BELOW,
}
"""Folder of the package -> the folders that its files may import. The folders of `ABOVE` may import all others."""

ABOVE = ("application", "api", "editor", "command")
"""The folders that import all others; of these, the others import `application`, and `command` imports `editor`."""

MAY_IMPORT_INSIDE_MSCCL: dict[str, set[str]] = {
    "": {""},
    "lowering": {"", "lowering"},
    "plans": {"", "lowering", "plans"},
    "check": {"check"},
    "check_plan": {"check", "check_plan"},
    "running": {"", "check", "check_plan", "running"},
    "simulating": {"", "check", "check_plan", "simulating"},
    "inspecting": {"", "check", "check_plan", "inspecting"},
}
"""The folders and files inside `collc/msccl`; "" are the other files of the folder itself. What checks files shares
nothing with what writes them but `collc/runtime`, which executes steps and reads no files."""

SHARED_BY_SYNTHESIZERS = {"bounds", "reductions"}
"""Folders of `collc/synthesis` that hold no synthesizer; files of the folder itself are shared too."""


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


def folder(module: str, depth: int = 1) -> str:
    """The folder (or file) of the package that a module is in: "msccl" for `collc.msccl.lowering.fuse`; with depth 2
    the folder inside that, "lowering", or "" for a file that is in no folder."""
    parts = module.split(".")
    if depth == 1:
        return parts[1] if len(parts) > 1 else ""
    inside = len(parts) > depth + 1 or module in PACKAGES
    return parts[depth] if inside and len(parts) > depth else ""


PACKAGES = {name for name, path in modules().items() if path.name == "__init__.py"}
KNOWN = modules()


@cache
def all_imports() -> dict[str, set[str]]:
    return {name: imports(path, set(KNOWN)) for name, path in KNOWN.items()}


def test_imports_run_one_way() -> None:
    for module, found in all_imports().items():
        allowed = MAY_IMPORT.get(folder(module))
        if allowed is None:
            assert folder(module) in (*ABOVE, "__main__", ""), f"{module} is in a folder without a rule"
            continue
        forbidden = {name for name in found if folder(name) and folder(name) not in allowed}
        assert not forbidden, f"{module} imports {forbidden}"


def test_the_command_line_is_above_the_application() -> None:
    for module, found in all_imports().items():
        if folder(module) == "application":
            assert not {name for name in found if folder(name) in ("api", "editor", "command")}, module


def test_one_synthesizer_imports_no_other() -> None:
    for module, found in all_imports().items():
        own = folder(module, 2)
        if folder(module) != "synthesis" or own == "auto":
            continue
        others = {folder(name, 2) for name in found if folder(name) == "synthesis"}
        forbidden = others - SHARED_BY_SYNTHESIZERS - {own, ""}
        assert not forbidden, f"{module} imports {forbidden}"


def part_of_msccl(module: str) -> str:
    """The folder inside `collc/msccl` that a module is in, or a file that has a row of its own; else ""."""
    name = module.removeprefix("collc.msccl.")
    return name if name in MAY_IMPORT_INSIDE_MSCCL else folder(module, 2)


def test_the_file_checker_shares_nothing_with_the_writer() -> None:
    for module, found in all_imports().items():
        if folder(module) == "msccl":
            others = {part_of_msccl(name) for name in found if folder(name) == "msccl"}
            forbidden = others - MAY_IMPORT_INSIDE_MSCCL[part_of_msccl(module)]
            assert not forbidden, f"{module} imports {forbidden}"


def test_there_are_no_circles() -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path, module])
        if module in done:
            return
        for name in all_imports().get(module, ()):
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


def test_late_imports_are_found(tmp_path: Path) -> None:
    """`imports` finds late imports and imports of names, so that the tests above can fail."""
    file = tmp_path / "x.py"
    file.write_text("def f():\n    from collc.synthesis import task\n    import collc.command.cli\n")
    assert imports(file, set(KNOWN) | {"collc.command.cli"}) == {"collc.synthesis.task", "collc.command.cli"}
