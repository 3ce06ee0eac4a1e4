"""The page of a report: valid, complete in itself, with tabs that belong together."""

from __future__ import annotations

import re

from lxml import html

from collc.base.tables import Table
from collc.pictures.charts import Axis, Bars, bar_chart
from collc.pictures.page import Facts, Figure, Page, Panel, Remarks, Section

EVIL = '</title><script>alert(1)</script><img src=x onerror=alert(2)>"&\x00'


def page(name: str = "a", sections: int = 2) -> str:
    picture = bar_chart([name], [Bars(name, [1])], title=name, value=Axis(name))
    blocks = [
        Figure(picture, name),
        Table((name, "outcome"), [(name, "ok"), (name, "failed")], name),
        Facts([(name, name, name), (name, name, "")]),
        Remarks(name, [name], bad=True, code=True),
    ]
    panels = [Panel(name, blocks), Panel(name, blocks[:1])]
    return Page(name, name, [Section(name, name, (name, "ok"), panels)] * sections, name).html()


def test_tabs_and_panels_belong_together() -> None:
    for sections in (1, 2):
        tree = html.fromstring(page(sections=sections))
        idents = [node.get("id") for node in tree.xpath("//*[@id]")]
        assert len(idents) == len(set(idents))
        tabs = tree.xpath("//*[@role='tab']")
        assert len(tabs) == 2 * sections + (sections if sections > 1 else 0)
        assert all(tab.get("aria-controls") in idents for tab in tabs)
        labels = [node.get("aria-labelledby") for node in tree.xpath("//*[@aria-labelledby]")]
        assert set(labels) <= set(idents)
        chosen = [tab for tab in tabs if tab.get("aria-selected") == "true"]
        assert len(chosen) == len(tree.xpath("//*[@role='tablist']"))


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = page()
    assert re.findall(r"https?://|url\(|@import|<link|<iframe|<img", text) == []
    assert "default-src 'none'" in text


def test_text_is_escaped() -> None:
    tree = html.fromstring(page(EVIL))
    assert len(tree.xpath("//script")) == 1
    assert tree.xpath("//img") == []
    assert not any(attribute.startswith("on") for node in tree.iter() for attribute in node.attrib)


def test_outcomes_have_signs_beside_their_colours() -> None:
    tree = html.fromstring(page())
    assert {node.get("class") for node in tree.xpath("//td/span")} == {"badge ok", "badge failed"}
    style = tree.xpath("string(//style)")
    assert all(f".badge.{outcome}::before" in style for outcome in ("ok", "failed", "skipped"))
    assert "prefers-color-scheme: dark" in style
