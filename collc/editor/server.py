"""The language server `collc lsp`: the protocol around the functions of this folder, on pygls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from collc.base.diagnostics import Diagnostic, SourceError, Span
from collc.base.reading import real_path
from collc.editor.describe import describe
from collc.editor.outline import Outline, folds, links, outline, selections
from collc.editor.positions import offset_of, position_of
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
    """A file was edited."""
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
