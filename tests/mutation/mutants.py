"""Mutants of a source file: one small change of its syntax tree each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
NOT_RUN = {"annotation", "returns", "decorator_list", "type_params", "bases", "keywords"}
"""Parts of definitions that are not changed."""
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """A change of a file: the line, the function that it is in, the old text and the new one, and the new source."""

    file: str
    line: int
    function: str
    old: str
    new: str
    source: str

    @property
    def key(self) -> str:
        """What names the mutant in `equivalent.txt`: independent of line numbers."""
        return f"{self.file}:{self.function}: {self.old} -> {self.new}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.old} -> {self.new}"


class _Finder:
    """Walks a file and collects mutants."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self.lines = [0]
        for line in text.encode().splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.found: list[Mutant] = []

    def add(self, node: ast.AST, changed: ast.AST | str, where: str) -> None:
        begin = self.lines[node.lineno - 1] + node.col_offset
        end = self.lines[node.end_lineno - 1] + node.end_col_offset
        data = self.text.encode()
        old = data[begin:end].decode()
        new = changed if isinstance(changed, str) else ast.unparse(ast.fix_missing_locations(changed))
        if isinstance(changed, ast.expr):
            new = f"({new})"
        source = (data[:begin] + new.encode() + data[end:]).decode()
        flat = (" ".join(part.split()) for part in (old, new))
        self.found.append(Mutant(self.file, node.lineno, where, *flat, source))

    def walk(self, node: ast.AST, where: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            where = f"{where}.{node.name}".lstrip(".")
        self.mutate(node, where)
        for name, value in ast.iter_fields(node):
            if name in NOT_RUN and not isinstance(node, ast.Call):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not self.skipped(child):
                    self.walk(child, where)

    @staticmethod
    def skipped(node: ast.AST) -> bool:
        """Texts of messages, docstrings, imports, `strict=` of zip, and blocks for type checkers alone."""
        if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
            return True
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return True
        return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"

    def mutate(self, node: ast.AST, where: str) -> None:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                for other in COMPARISONS.get(type(op), ()):
                    self.add(node, ast.Compare(left, [other()], [right]), where)
            case ast.BoolOp(op=op, values=values):
                self.add(node, ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values), where)
                for number in range(len(values)):
                    rest = [value for k, value in enumerate(values) if k != number]
                    self.add(node, ast.BoolOp(op, rest) if len(rest) > 1 else rest[0], where)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.add(node, operand, where)
            case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
                self.add(node, operand, where)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                self.add(node, ast.BinOp(left, OPERATORS[type(op)](), right), where)
            case ast.Constant(value=bool() as value):
                self.add(node, str(not value), where)
            case ast.Constant(value=int() as value):
                self.add(node, str(value + 1), where)
                self.add(node, str(value - 1) if value > 0 else "(-1)", where)
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                self.add(node.func, CALLS[name], where)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                self.add(test, ast.UnaryOp(ast.Not(), test), where)
            case _:
                self.drop(node, where)

    def drop(self, node: ast.AST, where: str) -> None:
        match node:
            case ast.Expr(value=ast.Call() | ast.YieldFrom() | ast.Yield()) | ast.Raise() | ast.Delete():
                self.add(node, "pass", where)
            case ast.AugAssign(target=target, op=op, value=value):
                self.add(node, "pass", where)
                if type(op) in OPERATORS:
                    self.add(node, ast.AugAssign(target, OPERATORS[type(op)](), value), where)
            case ast.Continue():
                self.add(node, "break", where)
            case ast.Break():
                self.add(node, "continue", where)
            case ast.Slice(lower=lower, upper=upper) if lower or upper:
                self.add(node, ":", where)


def mutants(root: Path, file: str) -> Iterator[Mutant]:
    """All mutants of a file below the root, in order."""
    text = (root / file).read_text()
    finder = _Finder(file, text)
    finder.walk(ast.parse(text), "")
    for mutant in finder.found:
        try:
            compile(mutant.source, file, "exec")
        except SyntaxError:
            continue
        yield mutant
