"""The language server with the client of Neovim, headless."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
local answers = {}
local function wait(check) return vim.wait(60000, check, 20) end
local command = { "PYTHON", "-m", "collc", "lsp" }
local id = vim.lsp.start_client({ name = "collc", cmd = command, root_dir = vim.fn.getcwd() })
vim.cmd("edit a.coll")
vim.lsp.buf_attach_client(0, id)
wait(function() return vim.lsp.get_client_by_id(id).initialized end)
local function lines() return vim.api.nvim_buf_get_lines(0, 0, -1, true) end
local function message(words)
    local said
    wait(function()
        said = vim.diagnostic.get(0)[1]
        return said and said.message:find(words)
    end)
    return said
end
local function request(method, line, character, more)
    local place = { textDocument = { uri = vim.uri_from_bufnr(0) }, position = { line = line, character = character } }
    local result = vim.lsp.buf_request_sync(0, method, vim.tbl_extend("force", place, more or {}), 60000)
    return result[id].result
end
local function apply_fix(line)
    local range = { start = { line = line, character = 0 }, ["end"] = { line = line, character = 9 } }
    local action = request("textDocument/codeAction", line, 0, { range = range, context = { diagnostics = {} } })[1]
    vim.lsp.util.apply_workspace_edit(action.edit, "utf-16")
end

vim.api.nvim_buf_set_lines(0, 1, 2, true, { "topology mesh = mesh2d(3, 3, bandwidth: 50 GiB/s, latency: 1us)" })
answers.broken = message("no space between") and message("no space between").message
apply_fix(1)  -- fix
answers.unknown = message("unknown collective").message
apply_fix(3)
answers.fixed = wait(function() return #vim.diagnostic.get(0) == 0 end) and lines()
vim.api.nvim_buf_set_lines(0, 6, 6, true, { "topology big = dgx_h" })
for _, item in ipairs(request("textDocument/completion", 6, 20)) do  -- complete
    if item.label == "dgx_h100" then
        vim.lsp.util.apply_text_edits({ item.textEdit }, 0, "utf-16")
        vim.lsp.util.apply_text_edits(item.additionalTextEdits, 0, "utf-16")
    end
end
answers.completed = lines()
vim.lsp.util.apply_workspace_edit(request("textDocument/rename", 3, 11, { newName = "grid" }), "utf-16")  -- rename
answers.renamed = lines()
answers.hover = request("textDocument/hover", 4, 15).contents.value
vim.fn.writefile({ vim.json.encode(answers) }, "answers.json")
vim.cmd("qall!")
"""


def test_open_break_fix_complete_and_rename(tmp_path: Path) -> None:
    pytest.importorskip("pygls", reason="pygls is missing: the language server is not tested")
    neovim = shutil.which("nvim")
    if neovim is None:
        pytest.skip("NO NEOVIM: the language server is not tested with an editor")
    (tmp_path / "a.coll").write_text(
        "import std.topologies\n\nschedule s on mesh {\n    run all_gather(mesh.npus, size: 9MiB)\n}\n"
    )
    (tmp_path / "script.lua").write_text(SCRIPT.replace("PYTHON", sys.executable))
    command = [neovim, "--headless", "-u", "NONE", "-n", "-c", "luafile script.lua", "-c", "cquit"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert answers["broken"].startswith("there is no space between a number and its unit")
    assert answers["unknown"].startswith("unknown collective 'all_gather'")
    program = [
        "import std.topologies",
        "import std.collectives",
        "topology mesh = mesh2d(3, 3, bandwidth: 50GiB/s, latency: 1us)",
        "schedule s on mesh {",
        "    run all_gather(mesh.npus, size: 9MiB)",
        "}",
    ]
    assert answers["fixed"] == program
    assert answers["completed"][2] == "import std.clusters"
    assert answers["completed"][-1] == "topology big = dgx_h100"
    assert answers["renamed"][3:6] == [
        program[2].replace("topology mesh", "topology grid"),
        "schedule s on grid {",
        "    run all_gather(grid.npus, size: 9MiB)",
    ]
    assert "topology grid = mesh2d" in answers["hover"]
