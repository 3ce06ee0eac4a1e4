"""The example of an import kind in docs/extending.md works as it stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from collc.application.machines.importing import import_machine
from collc.base.diagnostics import SourceError
from collc.machines import kinds, readers
from collc.machines.reading import ImportOptions
from tests.machines.formats import links, network_of

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.fixture
def probe(tmp_path, monkeypatch):
    """The file of the example in the folder of readers."""
    recipe = PAGE.read_text(encoding="utf-8").partition("## An import kind\n")[2]
    example = re.search(r"^```python\n(.*?)^```$", recipe, re.MULTILINE | re.DOTALL)
    assert example is not None
    (tmp_path / "probe.py").write_text(example[1])
    monkeypatch.setattr(readers, "__path__", [*readers.__path__, str(tmp_path)])
    kinds.import_kinds.cache_clear()
    yield
    kinds.import_kinds.cache_clear()
    sys.modules.pop("collc.machines.readers.probe", None)


def test_the_example_imports_a_machine(probe, tmp_path):
    path = tmp_path / "links.txt"
    path.write_text("gpu0 -> sw0 46.5GB/s 1.2us\nsw0 -> gpu1 46.5GB/s 1.2us\ngpu1 -> gpu0 2GB/s 5us\n")
    network = network_of(import_machine(ImportOptions((path,))), "pod", tmp_path)
    assert sorted(links(network)) == [
        (0, 2, 46_500_000_000, 1_200_000),
        (1, 0, 2_000_000_000, 5_000_000),
        (2, 1, 46_500_000_000, 1_200_000),
    ]
    path.write_text("gpu0 -> gpu1 46.5GB/s 1.2us\ngpu1 -> gpu0 fast\n")
    with pytest.raises(SourceError, match="a link is expected") as caught:
        import_machine(ImportOptions((path,)))
    assert caught.value.diagnostics[0].span.line == 2
