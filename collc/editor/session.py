"""What one client of the language server has opened, and the messages about it; conversions of places and edits."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final, cast

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from collc.base.diagnostics import Diagnostic, Span
from collc.base.reading import real_path
from collc.editor.positions import offset_of, position_of
from collc.editor.references import Edit
from collc.editor.uses import Use
from collc.editor.workspace import Checked, Workspace
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


def _is_fault(record: logging.LogRecord) -> bool:
    """Whether a log record is about a fault of the server, not about a request that it refuses."""
    return record.exc_info is None or not isinstance(record.exc_info[1], JsonRpcInvalidParams)


class Server(LanguageServer):
    """The server of one client.

    programs: its files. uris: of the files that were opened. messages: of each program that was checked, by the files
    that they are in. changed: files whose users are to be checked. checking: the task that does it; what is typed
    meanwhile is checked together after it. pictures: whether the client shows pictures in descriptions. results: of
    the schedules that were compiled, in a few words, and what limits them. compiling: the process that compiles, one at
    a time.
    """

    def __init__(self) -> None:
        super().__init__("collc", __version__)  # pyright: ignore[reportUnknownMemberType]
        self.programs = Workspace()
        self.uris: dict[Path, str] = {}
        self.messages: dict[Path, dict[Path, list[Diagnostic]]] = {}
        self.changed: set[Path] = set()
        self.checking: asyncio.Task[None] | None = None
        self.pictures = False
        self.results: dict[tuple[Path, str], tuple[str, str]] = {}
        self.compiling: asyncio.subprocess.Process | None = None
        logging.getLogger("pygls.protocol.json_rpc").addFilter(_is_fault)
        gc.disable()
        gc.freeze()  # the modules stay

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

    def refresh_lenses(self) -> None:
        """Ask the client to show the results of compilations, if it can."""
        shown = self.client_capabilities.workspace
        if shown is not None and shown.code_lens is not None and shown.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    @property
    def open_requests(self) -> int:
        """Requests of the client that have no answer yet, but for the one that is being handled."""
        asked = list(self.protocol._request_futures.items())  # pyright: ignore[reportPrivateUsage]
        of_server = self.protocol._result_types  # pyright: ignore[reportPrivateUsage]
        this = cast("object", asyncio.current_task())
        others = (future for number, future in asked if number not in of_server and number != self.protocol.msg_id)
        return sum(not future.done() for future in others if this is not future)

    def end_compilation(self) -> None:
        """End the compilation that runs, if there is one."""
        if self.compiling is not None and self.compiling.returncode is None:
            self.compiling.kill()

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
        """Check all programs that use a changed file, and publish their messages.

        A client that asks for messages asks about the file that it changed: it is told if there may be others.
        """
        before = self._known_messages
        while self.changed:
            path = next(iter(self.changed))
            self.changed.remove(path)
            for user in self.programs.users(path):
                await self._check(user)
        if self._refreshes and self._known_messages != before:
            self.workspace_diagnostic_refresh(None)
        gc.collect()  # of many old programs at once it would take 0.2 s of a request

    async def _check(self, path: Path) -> None:
        given = self.programs.snapshot(path)
        checked = await asyncio.to_thread(self.programs.check_snapshot, given)
        if given != self.programs.snapshot(path):
            self.changed.add(path)  # what it uses may have changed: no other check need follow
            return
        self.programs.enter(path, checked)
        self._publish(path, checked)

    @property
    def pulls(self) -> bool:
        """Whether the client asks for messages: then none are sent to it, since it would show both."""
        shown = self.client_capabilities.text_document
        return shown is not None and shown.diagnostic is not None

    @property
    def _known_messages(self) -> dict[Path, dict[Path, list[Diagnostic]]]:
        """The messages of the programs that have any."""
        return {program: files for program, files in self.messages.items() if files}

    @property
    def _refreshes(self) -> bool:
        known = self.client_capabilities.workspace
        return self.pulls and bool(known and known.diagnostics and known.diagnostics.refresh_support)

    async def checked_diagnostics(self, path: Path) -> list[lsp.Diagnostic]:
        """The messages about a file, after all checks that are due; the file is checked if it never was."""
        if path not in self.messages:
            self.check_soon([path])
        while self.checking is not None and not self.checking.done():
            await asyncio.shield(self.checking)
        return self._diagnostics(path)

    def _diagnostics(self, path: Path) -> list[lsp.Diagnostic]:
        """The messages about a file, from the checks of all programs that use it."""
        all_of = [m for files in self.messages.values() for m in files.get(path, ())]
        unique = {(m.code, m.message, m.span and (m.span.start, m.span.end)): m for m in all_of}
        return [self._diagnostic(message, path) for message in unique.values()]

    def _publish(self, program: Path, checked: Checked) -> None:
        before = self.messages.get(program, {})
        by_file: dict[Path, list[Diagnostic]] = {}
        for message in checked.messages:
            path = program if message.span is None else self.programs.path_of(message.span.file)
            by_file.setdefault(program if self.programs.is_library(path) else path, []).append(message)
        self.messages[program] = by_file
        if self.pulls:
            return
        for path in {program, *before, *by_file}:
            shown = lsp.PublishDiagnosticsParams(self.uri(path), self._diagnostics(path))
            self.text_document_publish_diagnostics(shown)

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
