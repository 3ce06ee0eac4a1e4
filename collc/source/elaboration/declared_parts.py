"""The parts that a `part` statement declares, all at once."""

from __future__ import annotations

from itertools import product

from collc.base.wording import did_you_mean
from collc.source import limits
from collc.source.elaboration.attributes import labels_of
from collc.source.elaboration.containers import coerce, flatten_lists
from collc.source.elaboration.evaluate import Evaluator, NotVectorised
from collc.source.elaboration.topology_parts import devices_of, index_part, part_named
from collc.source.elaboration.topology_values import PartRow, Topology, TopologyPart
from collc.source.elaboration.values import Frame, ListArray, Value, as_rows
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.problems import fail
from collc.source.types import INT


def declared_rows(
    node: s.PartDeclaration, evaluator: Evaluator, outer: Frame, home: Topology
) -> dict[tuple[int, ...], PartRow]:
    """The parts that a `part` declares, by the values of its loop variables. outer: the frame of the statement. home:
    the topology that declares them. Raises SourceError.
    """
    frame = evaluator.loop(node.clauses, None, outer) if node.clauses else outer
    count = 1 if frame.rows is None else frame.rows
    limits.check_count("iterations", count, node.span)
    columns = [as_rows(_variable(clause, frame), frame).data.tolist() for clause in node.clauses]
    keys = [*zip(*columns, strict=True)] if columns else [()]
    labels = _labels(node, columns[-1] if columns else [0], outer, evaluator)
    rows: list[PartRow] = [([], [], label) for label in labels]
    for part in node.parts:
        if isinstance(part, ex.RemovedLink):
            sources, targets = (_devices(evaluator, home, end, frame, count) for end in (part.source, part.target))
            for row, a, b in zip(rows, sources, targets, strict=True):
                row[1].extend([*product(a, b), *(product(b, a) if part.both else ())])
            continue
        for row, devices in zip(rows, _devices(evaluator, home, part.device, frame, count), strict=True):
            row[0].extend(devices)
    return dict(zip(keys, rows, strict=True))


def _labels(node: s.PartDeclaration, last: list[int], frame: Frame, evaluator: Evaluator) -> list[str]:
    """A label for each part, given for each, or once for the last indices of all. last: the last index of each part.

    Raises SourceError.
    """
    count = len({*last})
    repeats = len(last) // max(count, 1)
    inner = count if last == last[:count] * repeats else None
    labels = labels_of(node.labels, len(last), frame, evaluator, inner)
    return [*labels] * (len(last) // len(labels)) if labels else [""] * len(last)


def _variable(clause: ex.ForClause, frame: Frame) -> Value:
    value = frame.find(clause.name.name)
    assert value is not None
    return coerce(value, INT, clause.span, "an index", frame)


def _devices(evaluator: Evaluator, home: Topology, node: ex.Expr, frame: Frame, count: int) -> list[list[int]]:
    """For each row, the devices that an expression names in the body of a topology. Raises SourceError."""

    def index(part: TopologyPart, i: ex.Index) -> TopologyPart | Value:
        return index_part(part, evaluator.part_indices(i, frame), i.span)

    try:
        value = part_named(node, home.members, home, index)
    except NotVectorised:  # slices that differ between rows
        return [_devices(evaluator, home, node, frame.row(row), 1)[0] for row in range(count)]
    if value is None:
        root = ex.root_of(node)
        name = root.name if isinstance(root, ex.Name) else "this"
        raise fail("E0309", f"unknown device or copy '{name}'", root.span, hint=did_you_mean(name, home.members))
    if isinstance(value, TopologyPart):
        value = devices_of(value, node.span)
    value = as_rows(value, frame)
    if not isinstance(value.data, ListArray):
        return [[number] for number in value.data.tolist()]
    row, numbers = flatten_lists(value.data)
    devices: list[list[int]] = [[] for _ in range(count)]
    for own, number in zip(map(int, row), map(int, numbers), strict=True):
        devices[own].append(number)
    return devices
