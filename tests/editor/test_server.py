"""The language server, through its protocol."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collc.command.cli import main
from tests.editor.client import Client

PROGRAM = """import std.topologies
import std.collectives

topology mesh = mesh2d(3, 3, bandwidth: 50GiB/s, latency: 0.5us)

schedule gather on mesh {
    run all_gather(mesh.npus, size: 9MiB)
}
"""

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs").resolve()


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    pytest.importorskip("pygls", reason="pygls is missing: the language server is not tested")
    client = Client(folder)
    yield client
    assert client.close() == 0


@pytest.fixture
def uri(client: Client, folder: Path) -> str:
    """An open program, which is not on disk, without errors."""
    uri = client.open(folder / "gather.coll", PROGRAM)
    while client.published(uri):  # of the text of another test
        pass
    return uri


def codes(diagnostics: list[Any]) -> list[str]:
    return [each["code"] for each in diagnostics]


def test_messages_follow_the_text(client: Client, uri: str) -> None:
    client.change(uri, PROGRAM.replace("mesh2d", "mesh2e"))
    (message,) = client.published(uri)
    assert message["code"] == "E0202"
    assert message["message"] == "unknown topology or function 'mesh2e'\nhelp: did you mean 'mesh2d'?"
    assert message["range"] == {"start": {"line": 3, "character": 16}, "end": {"line": 3, "character": 22}}
    client.change(uri, PROGRAM.replace("9MiB", "9 MiB").replace("{", ""))
    assert codes(client.published(uri)) == ["E0101"]
    client.change(uri, PROGRAM)
    assert client.published(uri) == []


def test_programs_that_import_a_file_get_its_messages_and_theirs(client: Client, folder: Path) -> None:
    (folder / "user.coll").write_text('import "node.coll"\nlet g = node.gpu[0]\n')
    node = client.open(folder / "node.coll", "topology node { npu gpu[2] }\n")
    assert client.published(node) == []
    user = (folder / "user.coll").as_uri()
    assert client.published(user) == []
    client.change(node, "topology node { npu gpus[2] }\n")
    assert codes(client.published(user)) == ["E0316"]
    client.change(node, "topology node { npu gpu[2 }\n")
    assert codes(client.published(node)) == ["E0105"]
    client.change(node, "topology node { npu gpu[2] }\n")
    assert client.published(user) == []


def test_messages_on_request(tmp_path: Path) -> None:
    """A client that asks for messages is sent none; those of files that it has not open come with the workspace."""
    pytest.importorskip("pygls", reason="pygls is missing: the language server is not tested")
    folder = tmp_path.resolve()
    (folder / "node.coll").write_text("topology node { npu gpu[2] }\n")
    (folder / "user.coll").write_text('import "node.coll"\nlet g = node.gpu[0]\n')
    client = Client(folder, pulls=True)
    assert client.capabilities["diagnosticProvider"] == {"interFileDependencies": True, "workspaceDiagnostics": True}

    def pulled(uri: str) -> list[str]:
        report = client.request("textDocument/diagnostic", {"textDocument": {"uri": uri}})
        assert report["kind"] == "full"
        return codes(report["items"])

    def all_pulled() -> dict[str, list[str]]:
        report = client.request("workspace/diagnostic", {"previousResultIds": []})
        return {item["uri"].rpartition("/")[2]: codes(item["items"]) for item in report["items"]}

    assert pulled((folder / "user.coll").as_uri()) == []
    assert all_pulled() == {"node.coll": [], "user.coll": []}
    node = client.open(folder / "node.coll")
    assert pulled(node) == []
    assert client.asked == []
    client.change(node, "topology node { npu gpus[2] }\n")
    assert pulled(node) == []
    assert client.asked == ["workspace/diagnostic/refresh"]  # for the messages of the user
    assert all_pulled() == {"node.coll": [], "user.coll": ["E0316"]}
    client.change(node, "topology node { npu gpu[2 }\n")
    assert pulled(node) == ["E0105"]
    assert all_pulled() == {"node.coll": ["E0105"], "user.coll": []}
    assert client.diagnostics == {}
    assert set(client.asked) == {"workspace/diagnostic/refresh"}
    assert client.close() == 0


def test_files_that_are_opened_together_all_get_their_messages(client: Client, folder: Path) -> None:
    uris = [client.open(folder / f"{name}.coll", f"let a = {name}\n") for name in ("one", "two", "three")]
    for uri in uris:
        while uri not in client.diagnostics:
            client.published(uri)
        assert codes(client.diagnostics[uri]) == ["E0201"]


def test_structure(client: Client, uri: str) -> None:
    document = {"textDocument": {"uri": uri}}
    symbols = client.request("textDocument/documentSymbol", document)
    assert [(s["name"], s["selectionRange"]["start"]["line"]) for s in symbols] == [("mesh", 3), ("gather", 5)]
    (fold,) = client.request("textDocument/foldingRange", document)
    assert (fold["startLine"], fold["endLine"]) == (5, 6)
    links = client.request("textDocument/documentLink", document)
    assert [link["target"].rpartition("/")[2] for link in links] == ["topologies.coll", "collectives.coll"]
    (chain,) = client.request("textDocument/selectionRange", document | {"positions": [{"line": 6, "character": 20}]})
    assert chain["range"]["start"] == {"line": 6, "character": 19}
    assert chain["parent"]["range"]["end"] == {"line": 6, "character": 28}


def test_formatting(client: Client, uri: str) -> None:
    options = {"textDocument": {"uri": uri}, "options": {"tabSize": 4, "insertSpaces": True}}
    assert client.request("textDocument/formatting", options) == []
    client.change(uri, PROGRAM.replace("    run", "run"))
    (edit,) = client.request("textDocument/formatting", options)
    assert edit["newText"] == PROGRAM
    client.change(uri, PROGRAM + "}")
    assert client.request("textDocument/formatting", options) == []


def test_hover_and_definition(client: Client, uri: str) -> None:
    assert "9 NPUs, 24 links of 50GiB/s" in client.at("textDocument/hover", uri, 6, 20)["contents"]["value"]
    (own,) = client.at("textDocument/definition", uri, 6, 20)
    assert (own["uri"], own["range"]["start"]) == (uri, {"line": 3, "character": 9})
    assert client.at("textDocument/declaration", uri, 6, 20) == [own]
    (library,) = client.at("textDocument/definition", uri, 6, 10)
    assert library["uri"].endswith("/collectives.coll")
    (module,) = client.at("textDocument/definition", uri, 0, 12)
    assert module["uri"].endswith("/topologies.coll")
    assert client.at("textDocument/hover", uri, 2, 0) is None
    client.change(uri, PROGRAM.replace("9MiB)", "9MiB)\n    failures any link (bandwidth: 1 / 2)"))
    said = client.at("textDocument/hover", uri, 7, 25)["contents"]["value"]
    assert said == "attribute **bandwidth**\n\nrate of a link, rate or share that is left of what fails"
    assert client.at("textDocument/definition", uri, 100, 100) == []


def test_without_pygls_a_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    monkeypatch.delitem(sys.modules, "collc.editor.server", raising=False)
    assert main(["lsp"]) == 2
    assert "pip install 'collc[lsp]'" in capsys.readouterr().err


def test_no_numba_is_loaded_for_messages() -> None:
    code = (
        "import sys, collc.editor.workspace as w, pathlib; w.Workspace().check(pathlib.Path('x')); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"numba", "scipy", "networkx", "lark", "pygls"}.isdisjoint(loaded)


def test_completion_with_imports(client: Client, uri: str) -> None:
    client.change(uri, "schedule s on ri\n")
    items = client.at("textDocument/completion", uri, 0, 16)
    ring = next(item for item in items if item["label"] == "ring")
    assert ring["textEdit"]["range"]["start"] == {"line": 0, "character": 14}
    assert ring["additionalTextEdits"][0]["newText"] == "import std.topologies\n"
    client.change(uri, "let a = 9\n")
    assert "MiB" in {item["label"] for item in client.at("textDocument/completion", uri, 0, 9)}
    for text in ("# a", "# 9", 'let a = "9'):
        client.change(uri, f"{text}\n")
        assert client.at("textDocument/completion", uri, 0, len(text)) == []


def test_signature_help(client: Client, uri: str) -> None:
    answer = client.at("textDocument/signatureHelp", uri, 3, 26)
    assert answer["signatures"][0]["label"].startswith("topology mesh2d(width: int")
    assert answer["activeParameter"] == 1
    assert client.at("textDocument/signatureHelp", uri, 2, 0) is None


def test_references_and_renaming(client: Client, uri: str) -> None:
    context = {"context": {"includeDeclaration": True}}
    assert len(client.at("textDocument/references", uri, 3, 10, **context)) == 3
    assert [each["kind"] for each in client.at("textDocument/documentHighlight", uri, 3, 10)] == [3, 2, 2]
    assert client.at("textDocument/prepareRename", uri, 3, 10)["end"]["character"] == 13
    assert client.at("textDocument/prepareRename", uri, 6, 10) is None
    edits = client.at("textDocument/rename", uri, 3, 10, newName="grid")["changes"][uri]
    assert [edit["newText"] for edit in edits] == ["grid"] * 3
    with pytest.raises(AssertionError, match="is not a name"):
        client.at("textDocument/rename", uri, 3, 10, newName="1")
    names = [each["name"] for each in client.request("workspace/symbol", {"query": "gth"})]
    assert "gather" in names


def test_quick_fixes_come_with_their_edits(client: Client, uri: str) -> None:
    client.change(uri, PROGRAM.replace("9MiB", "9 MiB"))
    (message,) = client.published(uri)
    where = {"textDocument": {"uri": uri}, "range": message["range"], "context": {"diagnostics": [message]}}
    (action,) = client.request("textDocument/codeAction", where)
    assert action["title"] == "write '9MiB'"
    assert action["edit"]["changes"][uri][0]["newText"] == "9MiB"
    assert action["diagnostics"] == [message]


def test_semantic_tokens(client: Client, uri: str) -> None:
    legend = client.capabilities["semanticTokensProvider"]["legend"]
    data = client.request("textDocument/semanticTokens/full", {"textDocument": {"uri": uri}})["data"]
    lines, line, unit, seen = PROGRAM.splitlines(), 0, 0, {}
    for down, right, length, kind, modifiers in zip(*[iter(data)] * 5, strict=True):
        line, unit = line + down, right + unit * (down == 0)
        names = {name for bit, name in enumerate(legend["tokenModifiers"]) if modifiers >> bit & 1}
        seen.setdefault(lines[line][unit : unit + length], (legend["tokenTypes"][kind], names))
    assert seen["topology"] == ("keyword", set())
    assert seen["mesh2d"] == ("class", {"defaultLibrary"})
    assert seen["gather"] == ("function", {"declaration"})
    assert seen["bandwidth"] == ("parameter", {"defaultLibrary"})
    assert seen["50GiB/s"] == ("number", set())


def test_inlay_hints(client: Client, uri: str) -> None:
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    hints = client.request("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": whole})
    shown = {(hint["position"]["line"], hint["label"]) for hint in hints}
    above = {(3, "9 NPUs, 24 links of 50GiB/s"), (3, "width:"), (3, "height:")}
    assert shown == above | {(6, "9 chunks of 1MiB"), (6, "g:")}
    whole["end"]["line"] = 5
    assert len(client.request("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": whole})) == 3


def test_definition_of_the_template(client: Client, uri: str) -> None:
    (place,) = client.at("textDocument/typeDefinition", uri, 6, 20)
    assert place["uri"].endswith("/topologies.coll")
    assert client.at("textDocument/typeDefinition", uri, 6, 10) == []


def test_schedules_compile_from_their_lens(client: Client, folder: Path) -> None:
    path = folder / "compiled.coll"
    path.write_text(PROGRAM)
    uri = client.open(path)
    (lens,) = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert lens["command"]["title"] == "compile"
    command = {"command": "collc.compile", "arguments": lens["command"]["arguments"]}
    assert client.request("workspace/executeCommand", command) == "80.125us, 100.0% of ideal"
    (lens,) = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert lens["command"]["title"] == "compile: 80.125us, 100.0% of ideal"
    said = client.at("textDocument/hover", uri, 5, 10)["contents"]["value"]
    assert said.endswith(
        "80.125us, 100.0% of ideal\n\nLimit with these chunks: 80.125us, the links into npu[0, 0]. "
        "Limit with any chunks: 80.125us, the links into npu[0, 0]."
    )
    path.write_text(PROGRAM.replace("mesh2d", "mesh2e"))
    assert client.request("workspace/executeCommand", command) == "unknown topology or function 'mesh2e'"
    path.write_text(PROGRAM)


def test_a_schedule_with_failures_says_its_own_result(client: Client, folder: Path) -> None:
    path = folder / "failing.coll"
    path.write_text(PROGRAM.replace("size: 9MiB)", "size: 9MiB)\n    failures any npu"))
    command = {"command": "collc.compile", "arguments": [path.as_uri(), "gather"]}
    assert client.request("workspace/executeCommand", command) == "80.125us, 100.0% of ideal"


def test_a_compilation_ends_the_one_before(client: Client, folder: Path) -> None:
    path = folder / "compiled.coll"
    path.write_text(PROGRAM)
    params = {"command": "collc.compile", "arguments": [path.as_uri(), "gather"]}
    first, second = (client.send("workspace/executeCommand", params) for _ in range(2))
    assert client.result(first) == "cancelled"
    assert client.result(second) == "80.125us, 100.0% of ideal"


def test_a_server_that_compiles_and_checks_shuts_down(tmp_path: Path) -> None:
    pytest.importorskip("pygls", reason="pygls is missing: the language server is not tested")
    path = tmp_path.resolve() / "compiled.coll"
    path.write_text(PROGRAM.replace("(3, 3", "(30, 30").replace("9MiB", "900MiB"))
    client = Client(path.parent, pulls=True)
    uri = client.open(path)
    command = {"command": "collc.compile", "arguments": [uri, "gather"]}
    compiling = client.send("workspace/executeCommand", command)
    checking = client.send("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    assert client.close() == 0
    assert client.result(compiling) == "cancelled"
    assert client.result(checking)["items"] == []


def test_neither_a_refusal_nor_a_shutdown_during_a_compilation_logs_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pygls", reason="pygls is missing: the language server is not tested")
    path = tmp_path.resolve() / "compiled.coll"
    path.write_text(PROGRAM.replace("(3, 3", "(30, 30").replace("9MiB", "900MiB"))
    client = Client(path.parent)
    with pytest.raises(AssertionError, match="is not a name"):
        client.at("textDocument/rename", client.open(path), 3, 10, newName="1")
    params = {"command": "collc.compile", "arguments": [path.as_uri(), "gather"]}
    first, second = (client.send("workspace/executeCommand", params) for _ in range(2))
    assert client.result(first) == "cancelled"
    assert client.close() == 0
    assert client.result(second) == "cancelled"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("edits", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_random_edits_end_with_the_messages_of_the_text(client: Client, uri: str, edits: int) -> None:
    """While one types at random, every request is answered, and the last messages are those of the last text."""
    chance = random.Random(3)
    text = PROGRAM
    for _ in range(edits):
        place, gone = chance.randrange(len(text) + 1), chance.choice([0, 0, 1, 1, 5])
        new = chance.choice(["", "(", "}", "{", "x", ".", " 3", "\n", '"', "run "])
        text = text[:place] + new + text[place + gone :]
        client.change(uri, text)
        line = chance.randrange(text.count("\n") + 1)
        method = chance.choice(["completion", "hover", "signatureHelp", "documentHighlight", "definition"])
        client.at(f"textDocument/{method}", uri, line, chance.randrange(30))
        method = chance.choice(["documentSymbol", "foldingRange", "semanticTokens/full", "codeLens", "documentLink"])
        client.request(f"textDocument/{method}", {"textDocument": {"uri": uri}})
    client.change(uri, PROGRAM)
    while client.published(uri):
        pass
