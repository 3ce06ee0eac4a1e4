"""What a name is, as Markdown: its declaration, documentation, type and value; and the network of a topology."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import numpy as np

from collc.application.topology.topology_summary import EXACT_PAIRS
from collc.base.diagnostics import CollcError, SourceFile
from collc.base.units import shown_rate
from collc.base.wording import plural
from collc.editor.outline import head_of
from collc.editor.uses import Symbol
from collc.editor.workspace import Workspace
from collc.emit.kinds import EMIT_KINDS
from collc.passes.synthesizers import SYNTHESIZERS
from collc.source.elaboration.arithmetic import text_of
from collc.source.elaboration.attributes import ATTRIBUTES
from collc.source.elaboration.builtins import BUILTINS
from collc.source.elaboration.file_context import FileContext
from collc.source.elaboration.topology_values import Topology
from collc.source.elaboration.values import ListArray, Value, is_column
from collc.source.parsing import syntax as s
from collc.source.problems import AlreadyReported
from collc.source.scopes import NAME_SPACES, FoundDeclaration
from collc.source.types import Kind
from collc.ten.network import Network


def comment_above(source: SourceFile, start: int) -> str:
    """The comment in the lines directly above a position, without its signs."""
    lines: list[str] = []
    end = source.text.rfind("\n", 0, start)
    while end >= 0 and (line := source.text[source.text.rfind("\n", 0, end) + 1 : end].strip()).startswith("#"):
        lines.append(line.removeprefix("#").strip())
        end = source.text.rfind("\n", 0, end)
    return "\n".join(line for line in reversed(lines) if line)


def describe(workspace: Workspace, path: Path, symbol: Symbol, *, pictures: bool = False) -> str:
    """The description of a symbol that a file uses. pictures: whether it may have pictures, as data URIs."""
    if symbol.node is None or isinstance(symbol.node, s.Import):
        return _of_language(symbol)
    node = symbol.node
    parts = [f"~~~coll\n{head_of(node.span)}\n~~~"]
    comment = comment_above(node.span.file, node.span.start)
    value = value_of(workspace, path, symbol)
    if value is not None and isinstance(value.data, Topology):
        network = value.data.network
        parts.append(network_in_words(network))
        if pictures:
            from collc.pictures.network_picture import network_picture

            svg = network_picture(network).file()
            parts.append(f"![{symbol.name}](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})")
    elif value is not None:
        parts.append(value_in_words(value))
    parts += [comment] if comment else []
    name = node.span.file.name
    if name.startswith("std/"):
        parts.append(f"from {name.removesuffix('.coll').replace('/', '.')}")
    return "\n\n".join(parts)


def _of_language(symbol: Symbol) -> str:
    """What the language says of a name that no program declares."""
    name = symbol.name
    texts = [f"{symbol.kind} **{name}**"]
    if symbol.kind == "synthesizer":
        texts.append(f"for {SYNTHESIZERS[name].supports}")
    elif symbol.kind == "kind of file":
        texts.append(EMIT_KINDS[name].help)
    elif symbol.kind == "function" and name in BUILTINS:
        texts.append(f"takes {BUILTINS[name].wanted}")
    elif symbol.kind == "attribute":
        kinds = {owner: f"{types[name]} of a {owner}" for owner, types in ATTRIBUTES.items() if name in types}
        if "failures" in kinds:  # of no one type
            kinds["failures"] = "rate or share that is left of what fails"
        texts.append(", ".join(kinds.values()))
    elif symbol.kind == "option":
        records = [*SYNTHESIZERS.values(), *EMIT_KINDS.values()]
        texts.append(next((r.options[name].meaning for r in records if name in r.options), ""))
    elif symbol.kind == "all NPUs":
        texts = ["**npus**", "the group of all NPUs of the topology"]
    return "\n\n".join(texts)


def value_of(workspace: Workspace, path: Path, symbol: Symbol) -> Value | None:
    """The value of a declaration at the top of a file, from the last check that got as far; None if it has none."""
    checked = workspace.last_values(path)
    space = NAME_SPACES.get(type(symbol.node)) if symbol.node is not None else None
    if checked is None or checked.context is None or space not in ("value", "topology"):
        return None
    context = checked.context
    declared = next(iter(context.file.candidates(space, symbol.name)), None)
    if declared is None or declared.node.span.file.name != (symbol.place and symbol.place.file.name):
        return None
    return _evaluate(context, declared)


def _evaluate(context: FileContext, found: FoundDeclaration) -> Value | None:
    node = found.node
    if isinstance(node, s.TopologyTemplate) and node.parameters is not None:
        return None
    try:
        return context.value_of(found)
    except (CollcError, AlreadyReported, RecursionError):
        return None


def value_in_words(value: Value) -> str:
    """The type of a value, and the value if it is short."""
    if isinstance(value.data, ListArray) and value.data.uniform:
        return f"{value.type}: {plural(int(value.data.lengths[0]), 'item')}"
    single = value.data is not None and not is_column(value.data) and isinstance(value.data, int | str | float)
    if single or value.type.kind in (Kind.BYTES, Kind.TIME, Kind.RATE, Kind.FLOAT):
        return f"{value.type}: {text_of(value.data, value.type)}" if value.data is not None else str(value.type)
    return str(value.type)


def network_in_words(network: Network, *, diameter: bool = True) -> str:
    """What a network consists of: `8 NPUs, 2 switches, 32 links of 50 GiB/s; diameter 3 hops`."""
    npus = len(network.npus)
    switches = int(network.present[network.npu_count :].sum())
    parts = [plural(npus, "NPU"), *([f"{switches} switch{'es' * (switches > 1)}"] if switches else [])]
    rates = sorted({kind.bandwidth for kind in network.kinds if kind.bandwidth is not None})
    ends = list(dict.fromkeys(shown_rate(rate) for rate in (*rates[:1], *rates[-1:])))
    parts.append(plural(network.link_count, "link") + (f" of {' to '.join(ends)}" if ends else ""))
    text = ", ".join(parts)
    if diameter and network.link_count and 1 < npus <= EXACT_PAIRS:
        from collc.graph.digraph import Digraph
        from collc.graph.distances import UNREACHABLE, distances_to

        ones = np.ones(network.link_count, np.int64)
        hops = int(distances_to(Digraph.of(network), ones, network.npus)[:, network.npus].max())
        text += f"; diameter {plural(hops, 'hop')}" if hops < UNREACHABLE else "; not connected"
    return text
