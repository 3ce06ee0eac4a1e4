"""A small client of language servers over standard input and output."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PATIENCE = 60
"""Seconds until a missing answer is an error, on a machine under any load."""


class Client:
    """One `collc lsp` process with a folder as its workspace."""

    def __init__(self, folder: Path, options: dict[str, Any] | None = None, *, pulls: bool = False) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "collc", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        )
        self.number = 0
        self.inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.diagnostics: dict[str, list[Any]] = {}
        self.asked: list[str] = []
        self.versions: dict[str, int] = {}
        self.answers: dict[int, Any] = {}
        threading.Thread(target=self._read, daemon=True).start()
        folders = [{"uri": folder.as_uri(), "name": folder.name}]
        capabilities: dict[str, Any] = {"textDocument": {"publishDiagnostics": {"relatedInformation": True}}}
        if pulls:
            capabilities["textDocument"]["diagnostic"] = {"relatedDocumentSupport": True}
            capabilities["workspace"] = {"diagnostics": {"refreshSupport": True}}
        given = {"processId": None, "rootUri": folder.as_uri(), "capabilities": capabilities}
        self.capabilities = self.request(
            "initialize", given | {"workspaceFolders": folders, "initializationOptions": options or {}}
        )["capabilities"]
        self.notify("initialized", {})

    def _read(self) -> None:
        assert self.process.stdout is not None
        while header := self.process.stdout.readline():
            length = 0
            while header.strip():
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
                header = self.process.stdout.readline()
            self.inbox.put(json.loads(self.process.stdout.read(length)))
        self.inbox.put(None)

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def _next(self) -> dict[str, Any]:
        message = self.inbox.get(timeout=PATIENCE)
        assert message is not None, "the server ended"
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif "method" in message and "id" in message:
            self.asked.append(message["method"])
            self._send({"id": message["id"], "result": None})
        return message

    def send(self, method: str, params: Any) -> int:
        """Send a request; returns its number."""
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        return self.number

    def result(self, number: int) -> Any:
        """The result of the request with a number."""
        while number not in self.answers:
            message = self._next()
            if "id" in message and "method" not in message:
                self.answers[message["id"]] = message
        message = self.answers.pop(number)
        assert "error" not in message, message["error"]
        return message["result"]

    def request(self, method: str, params: Any) -> Any:
        """The result of a request."""
        return self.result(self.send(method, params))

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def open(self, path: Path, text: str | None = None) -> str:
        """Open a file, perhaps with a text that is not saved; returns its URI."""
        uri = path.as_uri()
        item = {"uri": uri, "languageId": "coll", "version": 1, "text": path.read_text() if text is None else text}
        self.versions[uri] = 1
        self.notify("textDocument/didOpen", {"textDocument": item})
        return uri

    def change(self, uri: str, text: str) -> None:
        self.versions[uri] += 1
        document = {"uri": uri, "version": self.versions[uri]}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})

    def published(self, uri: str) -> list[Any]:
        """The messages that are published next for a file."""
        while True:
            message = self._next()
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
                return message["params"]["diagnostics"]

    def at(self, method: str, uri: str, line: int, character: int, **more: Any) -> Any:
        """The answer of a request about a position."""
        position = {"line": line, "character": character}
        return self.request(method, {"textDocument": {"uri": uri}, "position": position, **more})

    def close(self) -> int:
        """End the server; returns its exit code."""
        self.request("shutdown", None)
        self.notify("exit", None)
        return self.process.wait(PATIENCE)
