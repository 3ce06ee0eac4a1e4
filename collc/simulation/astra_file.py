"""ASTRA-sim's network file for its analytical backends: YAML with four keys, each a list with an item per dimension."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span
from collc.base.wording import did_you_mean, listed

SHAPES: Final = ("Ring", "FullyConnected", "Switch")
"""Names of topologies in a network file."""

MAX_BYTES: Final = 16 << 10
"""PyYAML takes quadratic time for nested lists."""

MAX_NPUS: Final = 10_000_000
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
    if len(source.text) > MAX_BYTES:
        raise SourceError(Diagnostic("X0508", f"{source.name} has more than {MAX_BYTES >> 10} KiB"))
    yaml: Any = import_module("yaml")
    try:
        root = yaml.compose(source.text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = 0 if mark is None else min(mark.index, len(source.text))
        what = getattr(error, "problem", None) or "it cannot be read"
        raise _file_error(f"{source.name} is not YAML: {what}", Span(source, at, at)) from error
    except RecursionError as error:
        raise _file_error(f"{source.name} is nested too deeply") from error
    reader = _Fields(source, root)
    return [reader.dimension(number) for number in range(reader.dimensions)]


def _file_error(message: str, span: Span | None = None, hint: str = "") -> SourceError:
    return SourceError(Diagnostic("X0509", message, span, hint=hint))


class _Fields:
    """The values of the keys, each a list of nodes of PyYAML with their positions. dimensions: items of each list."""

    def __init__(self, source: SourceFile, root: Any) -> None:  # noqa: ANN401
        self._source = source
        self._nodes: dict[str, list[Any]] = {}
        if root is None or root.id != "mapping":
            raise _file_error(f"{source.name} has no keys", Span(source, 0, 0), f"a network file has {listed(_KEYS)}")
        for key, value in root.value:
            name = key.value if key.id == "scalar" else "?"
            if name not in _KEYS:
                hint = did_you_mean(name, _KEYS, f"the keys are {listed(_KEYS)}")
                raise _file_error(f"a network file has no key '{name}'", self._span_of(key), hint)
            if name in self._nodes:
                raise _file_error(f"'{name}' occurs twice", self._span_of(key))
            self._nodes[name] = self._items(name, value)
        for name in _KEYS:
            if name not in self._nodes:
                at = root.start_mark.index
                raise _file_error(
                    f"{source.name} has no '{name}'", Span(source, at, at), f"the keys are {listed(_KEYS)}"
                )
        self.dimensions = len(self._nodes["topology"])
        for name, items in self._nodes.items():
            if len(items) != self.dimensions:
                message = f"'{name}' has {len(items)} items, and 'topology' has {self.dimensions}"
                raise _file_error(message, self._span_of(items[0]), "each list has one item for each dimension")

    def dimension(self, number: int) -> AstraDimension:
        """One dimension, counted from 0."""
        return AstraDimension(
            self._shape(number),
            self._whole_number("npus_count", number, 2, MAX_NPUS),
            self._number("bandwidth", number, positive=True),
            self._number("latency", number, positive=False),
            self._span_of(self._nodes["npus_count"][number]),
        )

    def _span_of(self, node: Any) -> Span:  # noqa: ANN401
        return Span(self._source, node.start_mark.index, node.end_mark.index)

    def _items(self, name: str, value: Any) -> list[Any]:  # noqa: ANN401
        """The items of a list."""
        if value.id != "sequence" or not value.value:
            raise _file_error(f"'{name}' is a list with an item for each dimension, as in [ 8 ]", self._span_of(value))
        if len(value.value) > MAX_DIMENSIONS:
            message = f"'{name}' has {len(value.value)} items, more than {MAX_DIMENSIONS}"
            raise SourceError(Diagnostic("X0508", message, self._span_of(value)))
        return list(value.value)

    def _text(self, name: str, number: int) -> str:
        node = self._nodes[name][number]
        return str(node.value) if node.id == "scalar" else "?"

    def _shape(self, number: int) -> str:
        """The name of the topology."""
        name = self._text("topology", number)
        if name not in SHAPES:
            hint = did_you_mean(name, SHAPES, f"there are {listed(SHAPES)}")
            raise _file_error(
                f"there is no topology '{name[:80]}'", self._span_of(self._nodes["topology"][number]), hint
            )
        return name

    def _number(self, name: str, number: int, positive: bool) -> Fraction:
        """A number of at least 0: the shortest decimal of the 64-bit number that ASTRA-sim reads."""
        try:
            value = float(self._text(name, number))
        except ValueError:
            value = -1.0
        if not 0 <= value <= MAX_RATE or (positive and value == 0):
            least = "above 0" if positive else "of at least 0"
            message = f"'{name}' is a number {least}, at most {MAX_RATE:.0e}, not '{self._text(name, number)[:80]}'"
            raise _file_error(message, self._span_of(self._nodes[name][number]))
        return Fraction(repr(value))

    def _whole_number(self, name: str, number: int, least: int, most: int) -> int:
        """A whole number in a range."""
        text = self._text(name, number)
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
        if not least <= value <= most:
            message = f"'{name}' is a whole number from {least} to {most}, not '{text[:80]}'"
            raise _file_error(message, self._span_of(self._nodes[name][number]))
        return value
