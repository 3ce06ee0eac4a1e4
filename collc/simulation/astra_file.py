"""ASTRA-sim's network file for its analytical backends: YAML with four keys, each a list with an item per dimension."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span
from collc.base.wording import did_you_mean, phrase
from collc.ten.network import MOST_DEVICES

SHAPES: Final = ("Ring", "FullyConnected", "Switch")
"""Names of topologies in a network file."""

MAX_BYTES: Final = 16 << 10
"""PyYAML takes quadratic time for nested lists."""

MAX_RATE: Final = 1e9
"""GiB/s, and nanoseconds."""

MAX_DIMENSIONS: Final = 16

_KEYS: Final = ("topology", "npus_count", "bandwidth", "latency")


@dataclass(frozen=True, slots=True)
class AstraDimension:
    """One item of each list. shape: of SHAPES. bandwidth: GiB/s. latency: nanoseconds. span: of the number of NPUs."""

    shape: str
    npus: int
    bandwidth: Fraction
    latency: Fraction
    span: Span


def read_astra_file(source: SourceFile) -> list[AstraDimension]:
    """The dimensions of a network. Raises SourceError X0508, X0509 with the position of what is wrong."""
    columns = _columns(source, _root(source))
    return [_dimension(source, *nodes) for nodes in zip(*(columns[name] for name in _KEYS), strict=True)]


def unused_keys(source: SourceFile) -> list[str]:
    """A remark for each key that ASTRA-sim's analytical backends do not read. Raises as `read_astra_file`."""
    unknown = [(name, key) for name, key, _ in _entries(_root(source)) if name not in _KEYS]
    lines = [(name, source.text.count("\n", 0, key.start_mark.index) + 1) for name, key in unknown]
    return [f"{source.name}:{line}: ASTRA-sim does not use the key '{name[:80]}'" for name, line in lines]


def _root(source: SourceFile) -> Any:  # noqa: ANN401
    """The document, as a node of PyYAML. Raises SourceError X0508, X0509."""
    if len(source.text) > MAX_BYTES:
        raise SourceError(Diagnostic("X0508", f"{source.name} has more than {MAX_BYTES >> 10} KiB"))
    yaml: Any = import_module("yaml")
    try:
        root = yaml.compose(source.text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        begin = 0 if mark is None else min(mark.index, len(source.text))
        what = getattr(error, "problem", None) or "it cannot be read"
        raise _file_error(f"{source.name} is not YAML: {what}", Span(source, begin, begin)) from error
    except RecursionError as error:
        raise _file_error(f"{source.name} is nested too deeply") from error
    if root is None or root.id != "mapping":
        raise _file_error(f"{source.name} has no keys", Span(source, 0, 0), f"a network file has {phrase(_KEYS)}")
    return root


def _entries(root: Any) -> list[tuple[str, Any, Any]]:  # noqa: ANN401
    """(name, key, value) of all keys."""
    return [(key.value if key.id == "scalar" else "?", key, value) for key, value in root.value]


def _file_error(message: str, span: Span | None = None, hint: str = "") -> SourceError:
    return SourceError(Diagnostic("X0509", message, span, hint=hint))


def _span(source: SourceFile, node: Any) -> Span:  # noqa: ANN401
    return Span(source, node.start_mark.index, node.end_mark.index)


def _columns(source: SourceFile, root: Any) -> dict[str, list[Any]]:  # noqa: ANN401
    """The items of each key, as nodes of PyYAML with their positions; equally many of all keys."""
    columns: dict[str, list[Any]] = {}
    keys = f"the keys are {phrase(_KEYS)}"
    for name, key, value in _entries(root):
        if name not in _KEYS:
            continue
        if name in columns:
            raise _file_error(f"'{name}' occurs twice", _span(source, key))
        if value.id != "sequence" or not value.value:
            message = f"'{name}' is a list with an item for each dimension, as in [ 8 ]"
            raise _file_error(message, _span(source, value))
        if len(value.value) > MAX_DIMENSIONS:
            message = f"'{name}' has {len(value.value)} items, more than {MAX_DIMENSIONS}"
            raise SourceError(Diagnostic("X0508", message, _span(source, value)))
        columns[name] = list(value.value)
    for name in _KEYS:
        if name not in columns:
            begin = root.start_mark.index
            other, key = next(((other, key) for other, key, _ in _entries(root) if other not in _KEYS), ("", None))
            if key is not None:
                message = f"a network file has no key '{other[:80]}', but '{name}'"
                raise _file_error(message, _span(source, key), did_you_mean(other, [name], keys))
            raise _file_error(f"{source.name} has no '{name}'", Span(source, begin, begin), keys)
    for name, items in columns.items():
        if len(items) != len(columns["topology"]):
            message = f"'{name}' has {len(items)} items, and 'topology' has {len(columns['topology'])}"
            raise _file_error(message, _span(source, items[0]), "each list has one item for each dimension")
    return columns


def _dimension(source: SourceFile, *nodes: Any) -> AstraDimension:  # noqa: ANN401
    """One dimension, from the nodes of its values in the order of the keys."""
    shape, npus, *rates = (str(node.value) if node.id == "scalar" else "?" for node in nodes)
    spans = [_span(source, node) for node in nodes]
    if shape not in SHAPES:
        hint = did_you_mean(shape, SHAPES, f"there are {phrase(SHAPES)}")
        raise _file_error(f"there is no topology '{shape[:80]}'", spans[0], hint)
    count = int(npus) if npus.isascii() and npus.isdigit() and len(npus) < 10 else -1
    if not 2 <= count <= MOST_DEVICES:
        message = f"'npus_count' is a whole number from 2 to {MOST_DEVICES}, not '{npus[:80]}'"
        raise _file_error(message, spans[1])
    values: list[Fraction] = []
    for name, text, span in zip(_KEYS[2:], rates, spans[2:], strict=True):
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= MAX_RATE or (name == "bandwidth" and value == 0):
            least = "above 0" if name == "bandwidth" else "of at least 0"
            message = f"'{name}' is a number {least}, at most {MAX_RATE:.0e}, not '{text[:80]}'"
            raise _file_error(message, span)
        values.append(Fraction(repr(value)))  # the shortest decimal of the 64-bit number that ASTRA-sim reads
    bandwidth, latency = values
    return AstraDimension(shape, count, bandwidth, latency, spans[1])
