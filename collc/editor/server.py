"""The language server `collc lsp`: the protocol around the functions of this folder, on pygls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from collc.base.diagnostics import Diagnostic, SourceError, Span, UsageError
from collc.base.reading import real_path
from collc.editor.completion import Item, complete, complete_unit, import_edit, read_position, signature
from collc.editor.describe import describe
from collc.editor.fixes import fixes
from collc.editor.outline import Outline, folds, links, outline, selections
from collc.editor.positions import offset_of, position_of
from collc.editor.references import Edit, check_renaming, rename, symbols, uses_in, uses_of
from collc.editor.uses import Use
from collc.editor.workspace import Checked, Workspace, check
from collc.source.formatting.format import format_source
from collc.version import __version__

SYMBOLS: Final = {
    "topology": lsp.SymbolKind.Class,
    "collective": lsp.SymbolKind.Interface,
    "algorithm": lsp.SymbolKind.Method,
    "schedule": lsp.SymbolKind.Function,
    "workload": lsp.SymbolKind.Object,
    "price table": lsp.SymbolKind.Struct,
    "design": lsp.SymbolKind.Function,
    "constant": lsp.SymbolKind.Constant,
    "param": lsp.SymbolKind.Property,
    "parameter": lsp.SymbolKind.TypeParameter,
    "group": lsp.SymbolKind.Array,
    "chunk": lsp.SymbolKind.Variable,
}
"""The protocol's kinds of symbols; devices are fields."""


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


def path_of(uri: str) -> Path:
    """The path of a document; of one that is in no file, a path that no file has."""
    path = to_fs_path(uri)
    return real_path(Path(path)) if path else Path("/") / uri.replace("/", "_")


def range_of(span: Span | None) -> lsp.Range:
    """The range of a span; without one, the beginning of a file."""
    if span is None:
        return lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))
    ends = (position_of(span.file.text, offset) for offset in (span.start, span.end))
    return lsp.Range(*(lsp.Position(*end) for end in ends))


class Server(LanguageServer):
    """The server of one client.

    programs: its files. uris: of the files that were opened. messages: of each program that was checked, by the files
    that they are in. changed: files whose users are to be checked. checking: the task that does it; what is typed
    meanwhile is checked together after it.
    """

    def __init__(self) -> None:
        super().__init__("collc", __version__)  # pyright: ignore[reportUnknownMemberType]
        self.programs = Workspace()
        self.uris: dict[Path, str] = {}
        self.messages: dict[Path, dict[Path, list[Diagnostic]]] = {}
        self.changed: set[Path] = set()
        self.checking: asyncio.Task[None] | None = None
        self.pictures = False

    def uri(self, path: Path) -> str:
        """The URI of a file, as the client spells it if it has opened the file."""
        return self.uris.get(path) or from_fs_path(str(path)) or ""

    def locate(self, document: lsp.TextDocumentIdentifier, position: lsp.Position) -> tuple[Path, int]:
        """The path of a document, and the offset of a position in it."""
        path = path_of(document.uri)
        return path, offset_of(self.programs.source(path).text, position.line, position.character)

    def use_at(self, document: lsp.TextDocumentIdentifier, position: lsp.Position) -> Use | None:
        """The name at a position."""
        path, offset = self.locate(document, position)
        return self.programs.names(path).at(offset)

    def location(self, span: Span) -> lsp.Location:
        """Where a span is."""
        return lsp.Location(self.uri(self.programs.path_of(span.file)), range_of(span))

    def edits(self, edits: Iterable[Edit]) -> lsp.WorkspaceEdit:
        """Edits of files, as the protocol has them."""
        changes: dict[str, list[lsp.TextEdit]] = {}
        for edit in edits:
            span = Span(self.programs.source(edit.path), edit.start, edit.end)
            changes.setdefault(self.uri(edit.path), []).append(lsp.TextEdit(range_of(span), edit.text))
        return lsp.WorkspaceEdit(changes)

    # Messages

    def enter(self, uri: str, text: str | None) -> None:
        """Take the text of a document; None if it was closed. The programs that use it are checked soon."""
        path = path_of(uri)
        self.uris[path] = uri
        self.programs.change(path, text)
        self.check_soon([path])

    def check_soon(self, paths: Iterable[Path]) -> None:
        """Check the programs that use files, as soon as the present check ends."""
        self.changed.update(paths)
        if self.checking is None or self.checking.done():
            self.checking = asyncio.get_running_loop().create_task(self._check_changed())

    async def _check_changed(self) -> None:
        """Check all programs that use a changed file, and publish their messages."""
        while self.changed:
            path = next(iter(self.changed))
            self.changed.remove(path)
            for user in self.programs.users(path):
                await self._check(user)

    async def _check(self, path: Path) -> None:
        given = self.programs.snapshot(path)
        checked = await asyncio.to_thread(check, given)
        if given == self.programs.snapshot(path):  # else another check follows
            self.programs.enter(path, checked)
            self._publish(path, checked)

    def _publish(self, program: Path, checked: Checked) -> None:
        before = self.messages.get(program, {})
        by_file: dict[Path, list[Diagnostic]] = {}
        for message in checked.messages:
            path = program if message.span is None else self.programs.path_of(message.span.file)
            by_file.setdefault(program if self.programs.is_library(path) else path, []).append(message)
        self.messages[program] = by_file
        for path in {program, *before, *by_file}:
            all_of = [m for files in self.messages.values() for m in files.get(path, ())]
            unique = {(m.code, m.message, m.span and (m.span.start, m.span.end)): m for m in all_of}
            shown = [self._diagnostic(message, path) for message in unique.values()]
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(self.uri(path), shown))

    def _diagnostic(self, message: Diagnostic, path: Path) -> lsp.Diagnostic:
        span = message.span
        inside = span is not None and self.programs.path_of(span.file) == path
        notes = [note.message for note in message.notes if note.span is None]
        return lsp.Diagnostic(
            range_of(span if inside else None),
            "\n".join([message.message, *notes, *([f"help: {message.hint}"] if message.hint else [])]),
            lsp.DiagnosticSeverity.Warning if message.warning else lsp.DiagnosticSeverity.Error,
            message.code,
            source="collc",
            related_information=[
                lsp.DiagnosticRelatedInformation(self.location(note.span), note.message)
                for note in message.notes
                if note.span is not None
            ],
        )


server: Final = Server()


@server.feature(lsp.INITIALIZED)
def enter_folders(ls: Server, _params: lsp.InitializedParams) -> None:
    """Enter the folders of the workspace."""
    ls.programs.folders = [path_of(folder.uri) for folder in ls.workspace.folders.values()]


@server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
def open_document(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    """A file was opened."""
    ls.programs.forget(files=True)
    ls.enter(params.text_document.uri, params.text_document.text)


@server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
def change_document(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    """A file was apply_edits."""
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
    text = describe(ls.programs, path_of(params.text_document.uri), use.symbol, pictures=ls.pictures)
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), range_of(use.span))


@server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
def definition(ls: Server, params: lsp.DefinitionParams) -> list[lsp.Location]:
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
    unit = complete_unit(source.text, offset)
    if unit is not None:
        return [_completion_item(ls, path, item, Span(source, unit[0], offset)) for item in unit[1]]
    position = read_position(ls.programs, path, offset)
    if position is None:
        return []
    return [_completion_item(ls, path, item, Span(source, position.start, offset)) for item in complete(position)]


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
def code_actions(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """What the messages in a range propose."""
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
