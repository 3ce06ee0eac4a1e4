"""The language server `collc lsp`: the protocol around the functions of this folder, on pygls."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams

from collc.base.diagnostics import SourceError, Span, UsageError
from collc.base.units import format_time
from collc.editor.completion import Item, complete, complete_unit, import_edit, read_position, signature
from collc.editor.describe import describe
from collc.editor.fixes import fixes
from collc.editor.hints import MODIFIERS, TOKEN_KINDS, inlay_hints, tokens
from collc.editor.outline import Outline, folds, links, outline, selections
from collc.editor.positions import position_of
from collc.editor.references import check_renaming, rename, symbols, uses_in, uses_of
from collc.editor.session import SYMBOLS, Server, path_of, range_of
from collc.source.formatting.format import format_source
from collc.source.parsing.syntax import ScheduleDeclaration, TopologyInstance

ITEMS: Final = {
    "keyword": lsp.CompletionItemKind.Keyword,
    "unit": lsp.CompletionItemKind.Unit,
    "module": lsp.CompletionItemKind.Module,
    "file": lsp.CompletionItemKind.File,
    "function": lsp.CompletionItemKind.Function,
    "topology": lsp.CompletionItemKind.Class,
    "collective": lsp.CompletionItemKind.Interface,
    "algorithm": lsp.CompletionItemKind.Method,
    "parameter": lsp.CompletionItemKind.TypeParameter,
    "constant": lsp.CompletionItemKind.Constant,
    "type": lsp.CompletionItemKind.Struct,
    "text": lsp.CompletionItemKind.EnumMember,
}
"""The protocol's kinds of completion items; other names are variables."""


_RUNNING: Final = ("running", "")
"""The result of a schedule that is being compiled."""

server: Final = Server()


@server.feature(lsp.INITIALIZE)
def set_options(ls: Server, params: lsp.InitializeParams) -> None:
    """Take the client's options: "pictures", whether descriptions may have pictures as data URIs."""
    options: object = params.initialization_options  # pyright: ignore[reportUnknownMemberType]
    ls.pictures = isinstance(options, dict) and bool(options.get("pictures"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


@server.feature(lsp.INITIALIZED)
def enter_folders(ls: Server, _params: lsp.InitializedParams) -> None:
    """Enter the folders of the workspace."""
    ls.programs.folders = [path_of(folder.uri) for folder in ls.workspace.folders.values()]


@server.feature(lsp.SHUTDOWN)
async def finish(ls: Server, _params: None) -> None:
    """End the compilations, and wait until all requests are answered: pygls 2.1 fails if it must cancel some."""
    while ls.open_requests:
        ls.end_compilation()
        await asyncio.sleep(0.01)


@server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
def open_document(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    """A file was opened."""
    ls.programs.forget(files=True)
    ls.enter(params.text_document.uri, params.text_document.text)


@server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
def change_document(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    """The text of an open file was changed."""
    uri = params.text_document.uri
    ls.enter(uri, ls.workspace.get_text_document(uri).source)


@server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
def close_document(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    """A file was closed: its text is what is on disk."""
    ls.enter(params.text_document.uri, None)


@server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
def save_document(ls: Server, params: lsp.DidSaveTextDocumentParams) -> None:
    """A file was saved, which other programs may import."""
    ls.programs.forget(files=True)
    ls.check_soon([path_of(params.text_document.uri)])


@server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
def change_files(ls: Server, params: lsp.DidChangeWatchedFilesParams) -> None:
    """Files were changed by something else."""
    ls.programs.forget(files=True)
    ls.check_soon(path_of(change.uri) for change in params.changes)


@server.feature(
    lsp.TEXT_DOCUMENT_DIAGNOSTIC, lsp.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=True)
)
async def diagnostics(ls: Server, params: lsp.DocumentDiagnosticParams) -> lsp.RelatedFullDocumentDiagnosticReport:
    """The messages about a file."""
    return lsp.RelatedFullDocumentDiagnosticReport(await ls.checked_diagnostics(path_of(params.text_document.uri)))


@server.feature(lsp.WORKSPACE_DIAGNOSTIC)
async def workspace_diagnostics(ls: Server, _params: lsp.WorkspaceDiagnosticParams) -> lsp.WorkspaceDiagnosticReport:
    """The messages about all files of the workspace, also of those that are not open."""
    ls.check_soon(path for path in ls.programs.files() if path not in ls.messages)
    reports = [
        lsp.WorkspaceFullDocumentDiagnosticReport(ls.uri(path), await ls.checked_diagnostics(path))
        for path in ls.programs.files()
    ]
    return lsp.WorkspaceDiagnosticReport(reports)


@server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
def document_symbols(ls: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    """The declarations of a file."""
    return [_symbol(item) for item in outline(ls.programs.tree(path_of(params.text_document.uri)))]


def _symbol(item: Outline) -> lsp.DocumentSymbol:
    return lsp.DocumentSymbol(
        item.name,
        SYMBOLS.get(item.kind, lsp.SymbolKind.Field),
        range_of(item.span),
        range_of(item.place),
        item.detail,
        children=[_symbol(inner) for inner in item.inner],
    )


@server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
def format_document(ls: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
    """The canonical layout, as `collc fmt` writes it; no edit if the file has syntax errors."""
    source = ls.programs.source(path_of(params.text_document.uri))
    try:
        text = format_source(source)
    except SourceError:
        return []
    whole = range_of(Span(source, 0, len(source.text)))
    return [lsp.TextEdit(whole, text)] if text != source.text else []


@server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
def fold(ls: Server, params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
    """Bodies, lists and comments."""
    source = ls.programs.source(path_of(params.text_document.uri))
    kinds = {True: lsp.FoldingRangeKind.Comment, False: lsp.FoldingRangeKind.Region}
    return [lsp.FoldingRange(first, last, kind=kinds[comment]) for first, last, comment in folds(source)]


@server.feature(lsp.TEXT_DOCUMENT_HOVER)
def hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    """What a name is."""
    use = ls.use_at(params.text_document, params.position)
    if use is None:
        return None
    path = path_of(params.text_document.uri)
    text = describe(ls.programs, path, use.symbol, pictures=ls.pictures)
    if use.symbol.kind == "schedule":
        text = "\n\n".join(filter(None, [text, *ls.results.get((path, use.symbol.name), ())]))
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), range_of(use.span))


@server.feature(lsp.TEXT_DOCUMENT_DECLARATION)
@server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
def definition(ls: Server, params: lsp.DefinitionParams | lsp.DeclarationParams) -> list[lsp.Location]:
    """The declaration of a name; of an import, the file."""
    use = ls.use_at(params.text_document, params.position)
    path = path_of(params.text_document.uri)
    if use is None:
        return []
    if use.symbol.kind == "module":
        targets = [target for span, target in links(ls.programs, path) if span == use.span]
        return [lsp.Location(ls.uri(target), range_of(None)) for target in targets]
    return [] if use.symbol.place is None else [ls.location(use.symbol.place)]


@server.feature(
    lsp.TEXT_DOCUMENT_COMPLETION,
    lsp.CompletionOptions(trigger_characters=[*'.(,: "0123456789']),
)
def completion(ls: Server, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
    """What can be written at a position."""
    path, offset = ls.locate(params.text_document, params.position)
    source = ls.programs.source(path)
    position = read_position(ls.programs, path, offset)
    if position is None:
        return []
    unit = None if position.inside else complete_unit(source.text, offset)
    start, items = (position.start, complete(position)) if unit is None else unit
    return [_completion_item(ls, path, item, Span(source, start, offset)) for item in items]


def _completion_item(ls: Server, path: Path, item: Item, span: Span) -> lsp.CompletionItem:
    more: list[lsp.TextEdit] = []
    if item.module:
        place, text = import_edit(ls.programs, path, item.module)
        more = [lsp.TextEdit(range_of(place), text)]
    order = {"parameter": "0", "text": "0", "keyword": "2"}.get(item.kind, "3" if item.module else "1")
    return lsp.CompletionItem(
        item.label,
        kind=ITEMS.get(item.kind, lsp.CompletionItemKind.Variable),
        detail=f"{item.detail}  (import {item.module})" if item.module else item.detail or None,
        documentation=item.documentation or None,
        sort_text=order + item.label,
        text_edit=lsp.TextEdit(range_of(span), item.text or item.label),
        additional_text_edits=more or None,
    )


@server.feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(trigger_characters=["(", ","]))
def signature_help(ls: Server, params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
    """What the open parenthesis before a position belongs to, and which argument is next."""
    position = read_position(ls.programs, *ls.locate(params.text_document, params.position))
    call = signature(position) if position is not None else None
    if call is None:
        return None
    arguments = [lsp.ParameterInformation(a.name or a.detail, a.detail) for a in call.arguments]
    shown = lsp.SignatureInformation(call.label, call.documentation, arguments)
    return lsp.SignatureHelp([shown], 0, call.active if call.active >= 0 else None)


@server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
def references(ls: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
    """The uses of a name in the workspace."""
    use = ls.use_at(params.text_document, params.position)
    if use is None:
        return []
    uses = uses_of(ls.programs, path_of(params.text_document.uri), use.symbol)
    wanted = [use for file in uses.values() for use in file if params.context.include_declaration or not use.declares]
    return [ls.location(use.span) for use in wanted]


@server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
def highlights(ls: Server, params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
    """The uses of a name in a file."""
    use = ls.use_at(params.text_document, params.position)
    uses = uses_in(ls.programs, path_of(params.text_document.uri), use.symbol) if use is not None else []
    kinds = {True: lsp.DocumentHighlightKind.Write, False: lsp.DocumentHighlightKind.Read}
    return [lsp.DocumentHighlight(range_of(each.span), kinds[each.declares]) for each in uses]


@server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
def prepare_rename(ls: Server, params: lsp.PrepareRenameParams) -> lsp.Range | None:
    """The name that would be changed; none if it cannot be."""
    use = ls.use_at(params.text_document, params.position)
    try:
        if use is not None:
            check_renaming(ls.programs, use.symbol)
    except UsageError:
        return None
    return range_of(use.span) if use is not None else None


@server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
def rename_symbol(ls: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
    """Another name for a symbol, in all files."""
    use = ls.use_at(params.text_document, params.position)
    if use is None:
        return None
    try:
        return ls.edits(rename(ls.programs, path_of(params.text_document.uri), use.symbol, params.new_name))
    except UsageError as error:
        raise JsonRpcInvalidParams(error.diagnostics[0].message) from None


@server.feature(lsp.WORKSPACE_SYMBOL)
def workspace_symbols(ls: Server, params: lsp.WorkspaceSymbolParams) -> list[lsp.WorkspaceSymbol]:
    """The declarations of the workspace whose names fit a query."""
    return [
        lsp.WorkspaceSymbol(
            lsp.Location(ls.uri(path), range_of(item.place)),
            item.name,
            SYMBOLS.get(item.kind, lsp.SymbolKind.Field),
            container_name=path.name,
        )
        for path, item in symbols(ls.programs, params.query)
    ]


@server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix]))
async def code_actions(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """What the messages in a range propose."""
    if ls.checking is not None:
        await asyncio.shield(ls.checking)  # whose messages these are: the program is not checked twice
    path = path_of(params.text_document.uri)
    actions: list[lsp.CodeAction] = []
    for message in ls.programs.check(path).messages:
        span = range_of(message.span)
        if span.start.line <= params.range.end.line and span.end.line >= params.range.start.line:
            shown = [each for each in params.context.diagnostics if each.range == span and each.code == message.code]
            for title, edits in fixes(ls.programs, path, message):
                fix = lsp.CodeActionKind.QuickFix
                actions.append(lsp.CodeAction(title, fix, shown, is_preferred=True, edit=ls.edits(edits)))
    return actions


@server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_LINK)
def document_links(ls: Server, params: lsp.DocumentLinkParams) -> list[lsp.DocumentLink]:
    """The files that a program names."""
    targets = links(ls.programs, path_of(params.text_document.uri))
    return [lsp.DocumentLink(range_of(span), target=ls.uri(path)) for span, path in targets]


@server.feature(lsp.TEXT_DOCUMENT_SELECTION_RANGE)
def selection_ranges(ls: Server, params: lsp.SelectionRangeParams) -> Sequence[lsp.SelectionRange]:
    """The parts of a program around each position."""
    ranges: list[lsp.SelectionRange] = []
    for position in params.positions:
        path, offset = ls.locate(params.text_document, position)
        chain: lsp.SelectionRange | None = None
        for span in reversed(selections(ls.programs.tree(path), offset)):
            chain = lsp.SelectionRange(range_of(span), chain)
        ranges += [chain] if chain is not None else []
    return ranges


# What is shown besides the text

LEGEND: Final = lsp.SemanticTokensLegend([*dict.fromkeys([*TOKEN_KINDS.values(), "variable"])], [*MODIFIERS])
"""The kinds and modifiers of tokens, in the order of their numbers."""


@server.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, LEGEND)
def semantic_tokens(ls: Server, params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
    """The kinds of all words, each relative to the one before."""
    path = path_of(params.text_document.uri)
    source = ls.programs.source(path)
    data: list[int] = []
    line = unit = 0
    for start, end, kind, modifiers in tokens(source, ls.programs.names(path)):
        bits = sum(1 << number for number, given in enumerate(modifiers) if given)
        (row, first), (_, last) = position_of(source.text, start), position_of(source.text, end)
        data += [row - line, first - unit * (row == line), last - first, LEGEND.token_types.index(kind), bits]
        line, unit = row, first
    return lsp.SemanticTokens(data)


@server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
def inlay_hint(ls: Server, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    """Names of arguments, sizes of networks, and chunks of runs."""
    path = path_of(params.text_document.uri)
    text = ls.programs.source(path).text
    hints: list[lsp.InlayHint] = []
    for offset, label, argument in inlay_hints(ls.programs, path):
        position = lsp.Position(*position_of(text, offset))
        if params.range.start <= position <= params.range.end:
            kind = lsp.InlayHintKind.Parameter if argument else lsp.InlayHintKind.Type
            hints.append(lsp.InlayHint(position, label, kind, padding_left=not argument, padding_right=argument))
    return hints


@server.feature(lsp.TEXT_DOCUMENT_TYPE_DEFINITION)
def type_definition(ls: Server, params: lsp.TypeDefinitionParams) -> list[lsp.Location]:
    """The template of a topology."""
    use = ls.use_at(params.text_document, params.position)
    if use is None or not isinstance(use.symbol.node, TopologyInstance):
        return []
    path = path_of(params.text_document.uri)
    names = ls.programs.names(path)
    template = names.template_of(use.symbol.node.value, names.bodies[0])
    return [] if template is None else [ls.location(template[0].name.span)]


@server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
def code_lenses(ls: Server, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    """Above each schedule: compile it, with the last result."""
    path = path_of(params.text_document.uri)
    lenses: list[lsp.CodeLens] = []
    for node in ls.programs.tree(path).statements:
        if isinstance(node, ScheduleDeclaration):
            name = node.name.name
            said, _ = ls.results.get((path, name), ("", ""))
            title = f"compile: {said}" if said else "compile"
            command = lsp.Command(title, "collc.compile", arguments=[ls.uri(path), name])
            lenses.append(lsp.CodeLens(range_of(node.name.span), command))
    return lenses


@server.command("collc.compile")
async def compile_schedule(ls: Server, uri: str, name: str) -> str:
    """Compile a schedule of a saved file in another process, and say its time; an earlier compilation ends."""
    path = path_of(uri)
    ls.end_compilation()
    ls.results[path, name] = _RUNNING
    with TemporaryDirectory() as folder:
        words = ["-m", "collc", "compile", str(path), "--schedule", name, "--json", "--quiet", "-o", folder]
        process = ls.compiling = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        ls.refresh_lenses()
        output, _ = await process.communicate()
    result = _result(output, name)
    if process is ls.compiling:  # otherwise a later one shows that it is running
        ls.results[path, name] = result
        ls.refresh_lenses()
    return result[0]


def _result(output: bytes, name: str) -> tuple[str, str]:
    """What `collc compile --json` says of a schedule, which may have others for failures, in a few words; and what
    limits it, "" if that is not known.
    """
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        return "cancelled", ""
    schedule = next((each for each in answer["schedules"] if each["name"] == name), None)
    if schedule is None:
        return "; ".join(message["message"] for message in answer["diagnostics"][:1]), ""
    ideal = "" if schedule["of_ideal"] is None else f", {schedule['of_ideal']:.1%} of ideal"
    bounds = [("with these chunks", "bound"), ("with any chunks", "ideal")]
    limits = [
        f"Limit {what}: {format_time(schedule[f'{key}_ps'])}, {schedule[key]}."
        for what, key in bounds
        if schedule[f"{key}_ps"] is not None
    ]
    return format_time(schedule["time_ps"]) + ideal, " ".join(limits)
