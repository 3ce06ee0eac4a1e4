"""The static check of the parts of topologies: devices, attributes, labels, and the changes of `with` and `without`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from collc.base.diagnostics import Note
from collc.base.wording import did_you_mean, listed
from collc.source.checking.type_scope import TypeScope
from collc.source.elaboration.attributes import LINK_ATTRIBUTES, NPU_ATTRIBUTES, SWITCH_ATTRIBUTES
from collc.source.parsing import expressions as ex
from collc.source.parsing.syntax import ChangedDevice, DeviceDeclaration, With
from collc.source.problems import Problems, fail
from collc.source.types import INT, STRING, TOPOLOGY, Type, fits, list_of


class Expressions(Protocol):
    """The check of the expressions that parts contain (see ExpressionChecker)."""

    problems: Problems

    def type_of(self, node: ex.Expr, env: TypeScope) -> Type:
        """The type of an expression."""
        ...

    def expect(self, node: ex.Expr, env: TypeScope, wanted: Type, what: str) -> None:
        """Report an expression whose type does not fit."""
        ...

    def indices(self, nodes: Sequence[ex.Expr], env: TypeScope) -> bool:
        """Check indices; returns whether one of them selects several items."""
        ...

    def loop(self, clauses: Sequence[ex.ForClause], condition: ex.Expr | None, env: TypeScope) -> TypeScope:
        """Check the clauses of a loop nest; returns the scope with its loop variables."""
        ...


class PartChecker:
    """Checks the parts of topologies in one file; errors go to the problems of `expressions`."""

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.problems = expressions.problems

    def removed(self, node: ex.Without, env: TypeScope) -> None:
        """Check `t without { npu 5, link 0 <-> 1 }`."""
        self.expressions.expect(node.base, env, TOPOLOGY, "the topology before 'without'")
        for part in node.parts:
            for end in (part.device,) if isinstance(part, ex.RemovedDevice) else (part.source, part.target):
                self.indices(end, env)
            if isinstance(part, ex.RemovedLink) and part.lanes is not None:
                self.expressions.expect(part.lanes, env, INT, "the number of lanes")

    def changed(self, node: With, env: TypeScope) -> None:
        """Check `t with { npu spare, link spare <-> leaf[3] }`."""
        self.expressions.expect(node.base, env, TOPOLOGY, "the topology before 'with'")
        for part in node.parts:
            if isinstance(part, ChangedDevice):
                self.device(part, env)
                continue
            inner = env if part.loop is None else self.expressions.loop((part.loop,), None, env)
            for end in (part.source, part.target):
                self.indices(end, inner)
            self.attributes(part.attributes, LINK_ATTRIBUTES, inner)
            if part.lanes is not None:
                self.expressions.expect(part.lanes, inner, INT, "the number of lanes")

    def device(self, node: DeviceDeclaration | ChangedDevice, env: TypeScope) -> None:
        """Check the declaration or change of devices, as in `npu gpu[2, 8]`."""
        if isinstance(node, ChangedDevice):
            self.indices(node.device, env)
        for size in node.shape if isinstance(node, DeviceDeclaration) else ():
            self.expressions.expect(size, env, INT, "a size")
        self.attributes(node.attributes, NPU_ATTRIBUTES if node.kind == "npu" else SWITCH_ATTRIBUTES, env)
        self.labels(node.labels, env)

    def labels(self, node: ex.Expr | None, env: TypeScope) -> None:
        """Check the labels of devices: strings."""
        if node is not None:
            given = self.expressions.type_of(node, env)
            if not fits(given, STRING) and not fits(given, list_of(STRING)):
                message = f"labels must be of type string or list of string, not {given}"
                self.problems.add(*fail("E0211", message, node.span).diagnostics)

    def attributes(self, arguments: Sequence[ex.Argument], known: Mapping[str, Type], env: TypeScope) -> None:
        """Check the attributes of a device or link, as in `(bandwidth: 50GiB/s, latency: 0.5us)`."""
        seen: dict[str, ex.Argument] = {}
        for argument in arguments:
            name = "" if argument.name is None else argument.name.name
            if name not in known:
                hint = did_you_mean(name, known, f"there are {listed(known)}")
                if name in NPU_ATTRIBUTES and known is not NPU_ATTRIBUTES:
                    hint = f"'{name}' is an attribute of NPUs"
                message = f"unknown attribute '{name}'" if name else "an attribute needs a name"
                self.problems.add(*fail("E0305", message, argument.span, hint=hint).diagnostics)
                continue
            if name in seen:
                error = fail("E0212", f"'{name}' is given twice", argument.span, Note("first here", seen[name].span))
                self.problems.add(*error.diagnostics)
            seen[name] = argument
            self.expressions.expect(argument.value, env, known[name], f"'{name}'")

    def indices(self, node: ex.Expr, env: TypeScope) -> None:
        """Check the indices in the name of a device, as in `node[2].gpu[0]`."""
        if isinstance(node, ex.Member):
            self.indices(node.base, env)
        elif isinstance(node, ex.Index):
            self.indices(node.base, env)
            self.expressions.indices(node.indices, env)
