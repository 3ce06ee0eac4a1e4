"""Fixtures that import files and build machines of the standard library."""

from __future__ import annotations

import pytest

from collc.application.machines.importing import import_machine
from collc.machines.reading import ImportOptions
from collc.ten.network import Network
from tests.machines.formats import network_of


@pytest.fixture
def imported(tmp_path):
    """Imports files of these contents; the network, and the program."""

    def run(*texts, name="pod", definitions=None, **settings):
        paths = []
        for at, text in enumerate(texts):
            paths.append(tmp_path / f"file{at}")
            paths[-1].write_text(text)
        for key in ("node", "fabric"):
            if isinstance(settings.get(key), tuple):
                kind, text = settings[key]
                (tmp_path / key).write_text(text)
                settings[key] = f"{kind}:{tmp_path / key}"
        given = ImportOptions(tuple(paths), name=name, definitions=definitions or {}, **settings)
        program = import_machine(given)
        return network_of(program, name, tmp_path), program

    return run


@pytest.fixture
def std(tmp_path):
    def network(expression) -> Network:
        text = f"import std.topologies\nimport std.clusters\ntopology pod = {expression}\n"
        return network_of(text, "pod", tmp_path)

    return network
