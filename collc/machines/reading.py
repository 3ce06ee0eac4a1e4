"""What the readers of machine files share: errors with line and column, XML without entities, options."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, cast
from xml.parsers import expat

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span, UsageError, line_starts
from collc.base.units import PICOSECONDS, UNITS, Dimension, quantity_in

MAX_BYTES: Final = 64 << 20
MAX_DEVICES: Final = 1_000_000
MAX_HOSTS: Final = MAX_DEVICES // 10
MAX_ELEMENTS: Final = 4 * MAX_DEVICES
MAX_LINKS: Final = MAX_DEVICES
"""Links that a few words of a file stand for, as the sizes of a cluster do."""
GIGA: Final = 10**9
MICROSECOND: Final = Fraction(1, 10**6)


@dataclass(frozen=True)
class ImportOptions:
    """The arguments of `collc import`, which say what files do not; None: not given.

    kind: of `files`; None: by their content. name: of the topology. node, fabric: as KIND:FILE, or FILE; fabric also as
    in `importing.FABRICS`. nodes: the hosts to take, in this order; () for all. gpu: name of a GPU model
    (`hosts.MODELS`). gpus_per_node: of files that name hosts only. nvlink: NVLinks of each GPU to NVSwitches, 0
    for none; or those of a DGX-1. mirror: NVLinks that a file has in one direction are in both. pcie: keep or drop
    paths over PCIe; None: drop them if NVLinks join all GPUs. definitions: `-D`, rates and latencies by name. npu:
    `attribute=value` of the nodes of a graph that are NPUs. capacity, latency: `attribute=unit` of its edges. chunk:
    bytes of one chunk. measured: files of `collc calibrate`, which the program at `output` will import. joined_by,
    part: of files of Slurm, see `fabrics.JOINS` and `read_slurm`. addresses: whether NICs are named by these too.
    """

    files: tuple[Path, ...] = ()
    kind: str | None = None
    name: str = "pod"
    node: str | None = None
    fabric: str | None = None
    nodes: tuple[str, ...] = ()
    gpu: str | None = None
    gpus_per_node: int | None = None
    nvlink: int | Literal["dgx1"] | None = None
    mirror: bool = False
    pcie: bool | None = None
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])
    npu: str | None = None
    capacity: str | None = None
    latency: str | None = None
    chunk: int | None = None
    measured: tuple[Path, ...] = ()
    output: Path | None = None
    joined_by: str | None = None
    part: str | None = None
    addresses: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError U0150 for a text that means nothing."""
        _ = (self.rates, self.latencies, self.npu_attribute, self.capacity_unit, self.latency_unit)

    @cached_property
    def rates(self) -> Mapping[str, Fraction]:
        """Bytes per second by name of a LinkKind."""
        texts = {name: text for name, text in self.definitions.items() if not name.endswith("_latency")}
        rates = {name: _defined_quantity(name, text, Dimension.RATE) for name, text in texts.items()}
        if zero := next((name for name, rate in rates.items() if not rate), ""):
            raise usage_error(f"-D {zero}={texts[zero]} is not above 0", _DEFINITIONS)
        return rates

    @cached_property
    def latencies(self) -> Mapping[str, Fraction]:
        """Seconds by name of a LinkKind."""
        return {
            name.removesuffix("_latency"): _defined_quantity(name, text, Dimension.TIME) / PICOSECONDS
            for name, text in self.definitions.items()
            if name.endswith("_latency")
        }

    @property
    def npu_attribute(self) -> tuple[str, str] | None:
        """The attribute of the nodes of a graph that are NPUs, and its value; ("all", "") if all are NPUs."""
        return None if self.npu is None else _attribute_and_value(self.npu, "--npu")

    @property
    def capacity_unit(self) -> tuple[str, Fraction] | None:
        """The attribute of edges that is their bandwidth, and bytes per second of its unit."""
        return _attribute_and_unit(self.capacity, "--capacity", Dimension.RATE)

    @property
    def latency_unit(self) -> tuple[str, Fraction] | None:
        """The attribute of edges that is their latency, and seconds of its unit."""
        return _attribute_and_unit(self.latency, "--latency", Dimension.TIME)

    @property
    def switch_links(self) -> int | None:
        """NVLinks of each GPU to NVSwitches; None: not given."""
        return 0 if self.nvlink == "dgx1" else self.nvlink


_DEFINITIONS: Final = "as in -D nic=400Gb/s, -D nic_latency=0.9us"


def _defined_quantity(name: str, text: str, dimension: Dimension) -> Fraction:
    value = quantity_in(text.replace(" ", "", 1), dimension)
    if value is None:
        raise usage_error(f"-D {name}={text} is not a rate or latency", _DEFINITIONS)
    return value


def _attribute_and_value(text: str, flag: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign and name != "all":
        hint = "as in --npu type=gpu, --capacity bandwidth=GB/s"
        raise usage_error(f"{flag} {text} is not of the form attribute=value", hint)
    return name, value


def _attribute_and_unit(text: str | None, flag: str, dimension: Dimension) -> tuple[str, Fraction] | None:
    if text is None:
        return None
    name, unit = _attribute_and_value(text, flag)
    own, scale = UNITS.get(unit, (None, Fraction(0)))
    if own is not dimension:
        example = "GB/s" if dimension is Dimension.RATE else "us"
        raise usage_error(f"'{unit}' is not a unit of {flag}", f"as in {flag} {name}={example}")
    return name, scale / (PICOSECONDS if dimension is Dimension.TIME else 1)


def usage_error(message: str, hint: str) -> UsageError:
    """The error U0150 for arguments that do not fit."""
    return UsageError(Diagnostic("U0150", message, hint=hint))


def line_span(source: SourceFile, line: int) -> Span:
    """A line of a file, from 1, without the blanks at its begin."""
    starts = line_starts(source.text)
    line = min(max(line, 1), len(starts))
    start = starts[line - 1]
    end = starts[line] - 1 if line < len(starts) else len(source.text)
    text = source.text[start:end]
    return Span(source, start + len(text) - len(text.lstrip()), start + len(text.rstrip()))


def flaw(message: str, span: Span | None = None, hint: str = "") -> SourceError:
    """The error X0601 for a file that is not as its format says."""
    return SourceError(Diagnostic("X0601", message, span, hint=hint))


def option_error(message: str, hint: str) -> UsageError:
    """The error X0602 for what a format cannot say and no option gives."""
    return UsageError(Diagnostic("X0602", message, hint=hint))


def size_error(message: str, span: Span | None = None) -> SourceError:
    """The error X0603 for a machine that is larger than the limits."""
    return SourceError(Diagnostic("X0603", message, span, hint="import a part of the machine"))


def check_devices(count: int) -> None:
    """Raise SourceError X0603 for more than MAX_DEVICES devices."""
    if count > MAX_DEVICES:
        raise size_error(f"{count:,} devices exceed the limit of {MAX_DEVICES:,}")


def check_links(count: int) -> None:
    """Raise SourceError X0603 for more than MAX_LINKS links."""
    if count > MAX_LINKS:
        raise size_error(f"{count:,} links exceed the limit of {MAX_LINKS:,}")


def load_json(source: SourceFile) -> Any:  # noqa: ANN401
    """The value of a JSON file. Raises SourceError X0601 with the line."""
    try:
        return json.loads(source.text)
    except json.JSONDecodeError as error:
        message = f"{source.name} is not JSON: {error.msg}"
        raise flaw(message, line_span(source, error.lineno), "is the file cut off?") from error
    except RecursionError as error:
        raise flaw(f"{source.name} is nested too deeply", line_span(source, 1)) from error
    except ValueError as error:
        digits = re.search(r"\d{1000}", source.text)
        line = source.text.count("\n", 0, digits.start()) + 1 if digits is not None else 1
        raise flaw(f"{source.name} has a number of too many digits", line_span(source, line)) from error


def field_span(source: SourceFile, key: str, value: object) -> Span:
    """The first place in a JSON file of a key with a value; line 1 if none has, as with lists and records."""
    pattern = rf"{re.escape(json.dumps(key))}\s*:\s*{re.escape(json.dumps(value))}(?![\w.])"
    match = re.search(pattern, source.text)
    return line_span(source, 1) if match is None else Span(source, match.start(), match.end())


def mapping(value: object) -> dict[str, Any]:
    """A value of JSON as a mapping; {} if it is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """A value of JSON as a list; [] if it is none."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def compose_yaml(source: SourceFile, limit: int) -> Any:  # noqa: ANN401
    """The root node of a YAML file, as PyYAML composes it; None for an empty one. limit: characters.

    Raises SourceError X0601 with the line, X0603 above the limit.
    """
    yaml: Any = import_module("yaml")
    if len(source.text) > limit:
        raise size_error(f"{source.name} has more than {limit >> 10} KiB of YAML")
    try:
        return yaml.compose(source.text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else int(mark.line) + 1
        what = getattr(error, "problem", None) or "it cannot be read"
        raise flaw(f"{source.name} is not YAML: {what}", line_span(source, line)) from error


def yaml_fields(node: Any) -> dict[str, Any]:  # noqa: ANN401
    """The nodes of a YAML mapping by key; {} if it is none."""
    return {str(key.value): value for key, value in node.value} if node is not None and node.id == "mapping" else {}


def yaml_items(node: Any) -> list[Any]:  # noqa: ANN401
    """The nodes of a YAML sequence; [] if it is none."""
    return list(node.value) if node is not None and node.id == "sequence" else []


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an XML file. line: where it begins."""

    tag: str
    line: int
    attributes: Mapping[str, str]
    children: tuple[Element, ...]

    def get(self, name: str, default: str = "") -> str:
        """The value of an attribute."""
        return self.attributes.get(name, default)

    def __iter__(self) -> Iterator[Element]:
        return iter(self.children)


_DECLARATION: Final = re.compile(r"\s+<\?xml[^>]*\?>")
"""A declaration of XML after blank lines, which SimGrid reads and expat does not."""

_ENTITY: Final = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)[\w:.-]+;")


def parse_xml(source: SourceFile) -> Element:
    """The root of an XML file, in time linear in it; nothing else is read. Raises SourceError X0601.

    What a short file may repeat without end is refused: entities, default attributes, long names of namespaces, and
    more elements than MAX_ELEMENTS (X0603).

    (lxml takes time quadratic in the attributes of an element, and no time limit can end it.)
    """
    if (entity := _ENTITY.search(source.text)) is not None:
        raise flaw(f"{source.name} refers to entities, which are not read", Span(source, *entity.span()))
    parser = expat.ParserCreate()
    tops: list[Element] = []
    unfinished: list[tuple[str, int, dict[str, str], list[Element]]] = [("", 0, {}, tops)]
    room = MAX_ELEMENTS

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal room
        room -= 1
        line = parser.CurrentLineNumber
        if room < 0:
            raise size_error(f"{source.name} has more than {MAX_ELEMENTS:,} elements", line_span(source, line))
        if len(unfinished) > 256:
            raise flaw(f"{source.name} is nested too deeply", line_span(source, line))
        if any(name.startswith("xmlns") and len(value) > 1000 for name, value in attributes.items()):
            raise flaw("a namespace has a name of more than 1,000 characters", line_span(source, line))
        unfinished.append((tag.rpartition(":")[2], line, attributes, []))

    def end(_tag: str) -> None:
        tag, line, attributes, children = unfinished.pop()
        unfinished[-1][3].append(Element(tag, line, attributes, tuple(children)))

    def declare(_name: str, _system: str | None, _public: str | None, has_declarations: int) -> None:
        if has_declarations:
            message = f"{source.name} has declarations in its <!DOCTYPE>, which are not read"
            raise flaw(message, line_span(source, parser.CurrentLineNumber), "remove what is between [ and ]")

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.StartDoctypeDeclHandler = declare
    text = source.text
    if (declaration := _DECLARATION.match(text)) is not None:
        text = re.sub(r"[^\n]", " ", declaration[0]) + text[declaration.end() :]
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        starts = line_starts(source.text)
        start = min(starts[min(error.lineno, len(starts)) - 1] + error.offset, len(source.text))
        what = expat.errors.messages.get(error.code, "it cannot be read")
        raise flaw(f"{source.name} is not XML: {what}", Span(source, start, start)) from error
    return tops[0]


def element_span(source: SourceFile, element: Element) -> Span:
    """The line on which an element begins."""
    return line_span(source, element.line)
