"""Messages are written in one style: no backticks, lower case at the start, no full stop at the end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.codes.test_catalogue import CODE, texts, trees

NAMES = re.compile(r"(MSCCL|XML|CDATA|NPU|GPU|Z3|UTF|JSON|TACOS|PCCL|EOF|Z3|All-)")
"""Words that are always capitalized."""


def first_and_last(node: ast.expr) -> tuple[str, str]:
    """The fixed text at the beginning and at the end of an expression; "" for a value."""
    if isinstance(node, ast.Constant):
        return str(node.value), str(node.value)
    if isinstance(node, ast.JoinedStr) and node.values:
        ends = [v.value if isinstance(v, ast.Constant) else "" for v in (node.values[0], node.values[-1])]
        return str(ends[0]), str(ends[1])
    return "", ""


def assigned(function: ast.AST) -> dict[str, list[ast.expr]]:
    """Variables of a function and the texts assigned to them."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return found


def messages(tree: ast.Module) -> Iterator[ast.expr]:
    """The arguments after a code in calls: the message, or the texts assigned to it."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        known = assigned(function)
        for call in ast.walk(function):
            if not isinstance(call, ast.Call):
                continue
            for code, argument in zip(call.args, call.args[1:], strict=False):
                if isinstance(code, ast.Constant) and isinstance(code.value, str) and CODE.fullmatch(code.value):
                    yield from known.get(argument.id, []) if isinstance(argument, ast.Name) else [argument]


def wrong(node: ast.expr) -> bool:
    first, last = first_and_last(node)
    capital = first[:1].isupper() and not NAMES.match(first)
    return capital or (last.endswith(".") and not last.endswith(".."))


def test_messages_are_in_one_style() -> None:
    assert [(path, ast.unparse(node)) for path, tree in trees().items() for node in messages(tree) if wrong(node)] == []


def test_names_and_code_are_in_single_quotes() -> None:
    assert [(path, node.value) for path, tree in trees().items() for node in texts(tree) if "`" in node.value] == []


def test_wrong_messages_are_found() -> None:
    tree = ast.parse(
        "def f():\n    m = 'Wrong case'\n    fail('E0101', m)\n"
        "    fail('E0102', 'ends.')\n    fail('E0103', f'{m} is fine')"
    )
    assert [wrong(node) for node in messages(tree)] == [True, True, False]
    assert sum(len(list(messages(tree))) for tree in trees().values()) > 250
