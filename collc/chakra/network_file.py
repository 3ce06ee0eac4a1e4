"""ASTRA-sim's network file for its analytical backends: YAML with four keys, each a list with an item per dimension."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span
from collc.base.reading import read_text
from collc.base.wording import did_you_mean, listed
from collc.simulation.astra_networks import SHAPES, astra_kind, astra_network, link_count
from collc.ten.network import Network

MAX_BYTES: Final = 16 << 10
"""PyYAML takes quadratic time for nested lists."""

MAX_LINKS: Final = 10_000_000
MAX_RATE: Final = 1e9
"""GiB/s, and nanoseconds."""

_KEYS: Final = ("topology", "npus_count", "bandwidth", "latency")


def read_network(path: Path) -> Network:
    """The network of a file. Raises SourceError X0508, X0509 with the line of what is wrong, and as `read_text`."""
    source = read_text(path, limit=MAX_BYTES)
    yaml: Any = import_module("yaml")
    try:
        root = yaml.compose(source.text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = 0 if mark is None else min(mark.index, len(source.text))
        what = getattr(error, "problem", None) or "it cannot be read"
        raise _wrong(f"{path} is no YAML: {what}", Span(source, at, at)) from error
    except RecursionError as error:
        raise _wrong(f"{path} is nested too deeply") from error
    reader = _Fields(source, path, root)
    shape = reader.shape()
    npus = reader.whole_number("npus_count", 2, MAX_LINKS)
    bandwidth = reader.number("bandwidth", positive=True)
    latency = reader.number("latency", positive=False)
    if link_count(shape, npus) > MAX_LINKS:
        message = f"{shape} of {npus} NPUs has {link_count(shape, npus)} links, more than {MAX_LINKS}"
        raise SourceError(Diagnostic("X0508", message, reader.span("npus_count")))
    return astra_network(shape, npus, astra_kind(bandwidth, latency))


def _wrong(message: str, span: Span | None = None, hint: str = "") -> SourceError:
    return SourceError(Diagnostic("X0509", message, span, hint=hint))


class _Fields:
    """The values of the keys, each a node of PyYAML with its position."""

    def __init__(self, source: SourceFile, path: Path, root: Any) -> None:  # noqa: ANN401
        self._source, self._path = source, path
        self._nodes: dict[str, Any] = {}
        if root is None or root.id != "mapping":
            raise _wrong(f"{path} has no keys", hint=f"a network file has {listed(_KEYS)}")
        for key, value in root.value:
            name = key.value if key.id == "scalar" else "?"
            if name not in _KEYS:
                hint = did_you_mean(name, _KEYS, f"the keys are {listed(_KEYS)}")
                raise _wrong(f"a network file has no key '{name}'", self._span_of(key), hint)
            if name in self._nodes:
                raise _wrong(f"'{name}' is there twice", self._span_of(key))
            self._nodes[name] = self._only_item(name, value)
        for name in _KEYS:
            if name not in self._nodes:
                raise _wrong(f"{path} has no '{name}'", hint=f"a network file has {listed(_KEYS)}")

    def _span_of(self, node: Any) -> Span:  # noqa: ANN401
        return Span(self._source, node.start_mark.index, node.end_mark.index)

    def span(self, name: str) -> Span:
        """Where the value of a key is."""
        return self._span_of(self._nodes[name])

    def _only_item(self, name: str, value: Any) -> Any:  # noqa: ANN401
        """The item of a list of one."""
        if value.id != "sequence" or not value.value:
            raise _wrong(f"'{name}' is a list with one item, as in [ 8 ]", self._span_of(value))
        if len(value.value) > 1:
            hint = "take a network of any shape from a program: --on FILE.coll:TOPOLOGY"
            raise _wrong(f"{len(value.value)} dimensions; the simulator takes one", self._span_of(value), hint)
        return value.value[0]

    def _text(self, name: str) -> str:
        node = self._nodes[name]
        return str(node.value) if node.id == "scalar" else "?"

    def shape(self) -> str:
        """The name of the topology."""
        name = self._text("topology")
        if name not in SHAPES:
            hint = did_you_mean(name, SHAPES, f"there are {listed(SHAPES)}")
            raise _wrong(f"there is no topology '{name[:80]}'", self.span("topology"), hint)
        return name

    def number(self, name: str, positive: bool) -> float:
        """A number of at least 0."""
        try:
            value = float(self._text(name))
        except ValueError:
            value = -1.0
        if not 0 <= value <= MAX_RATE or (positive and value == 0):
            least = "above 0" if positive else "of at least 0"
            message = f"'{name}' is a number {least}, at most {MAX_RATE:.0e}, not '{self._text(name)[:80]}'"
            raise _wrong(message, self.span(name))
        return value

    def whole_number(self, name: str, least: int, most: int) -> int:
        """A whole number in a range."""
        text = self._text(name)
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
        if not least <= value <= most:
            message = f"'{name}' is a whole number from {least} to {most}, not '{text[:80]}'"
            raise _wrong(message, self.span(name))
        return value
