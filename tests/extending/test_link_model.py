"""The example of a link model in docs/extending.md: its member has the times that it says."""

from __future__ import annotations

import re
from pathlib import Path

from collc.passes.synthesizers import LINK_MODEL
from collc.ten import link_model

ROOT = Path(__file__).parents[2]


def test_the_example_is_a_link_model() -> None:
    """The members and `busy` of the example in the place of those of collc/ten/link_model.py."""
    recipe = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").partition("## A link model\n")[2]
    example = re.search(
        r"^```python\nclass LinkModel\(StrEnum\):\n(.*?)\n    def busy(.*?)^```$", recipe, re.MULTILINE | re.DOTALL
    )
    assert example is not None
    source = Path(link_model.__file__).read_text(encoding="utf-8")
    source = re.sub(r"^    STORE =.*?\n\n", lambda _: example[1] + "\n", source, flags=re.MULTILINE | re.DOTALL)
    source = re.sub(r"^    def busy.*", lambda _: "    def busy" + example[2], source, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(source, "link_model", "exec"), names)
    models = names["LinkModel"]
    assert [model.value for model in models] == ["store", "pipelined", "half"]
    assert [model.busy(10, 30) for model in models] == [30, 10, 20]
    assert models("half").frees == "when half of the latency is over"


def test_the_option_lists_all_models() -> None:
    assert LINK_MODEL["link_model"].choices == tuple(model.value for model in link_model.LinkModel)
    assert all(model.frees in LINK_MODEL["link_model"].meaning for model in link_model.LinkModel)
