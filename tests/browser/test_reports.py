"""Reports in headless Chromium: nothing in the console, nothing loaded, everything drawn, no text over other text.

Needs the package `playwright` and a Chromium: of COLLC_BROWSER, of the system, or of `playwright install`.
"""

from __future__ import annotations

import html
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import collc
from collc.command.cli import main

pytestmark = [pytest.mark.browser, pytest.mark.slow]
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: python -m pip install playwright"
)

HEAD = "import std.topologies\nimport std.clusters\nimport std.collectives\n"
LINK = "bandwidth: 50GiB/s, latency: 0.5us"
PROGRAMS = {
    "mesh": (f"mesh2d(3, 3, {LINK})", "all_gather(t.npus, size: 9MiB)"),
    "torus": (f"torus2d(4, 4, {LINK})", "all_reduce(t.npus, size: 16MiB)"),
    "cluster": ("dgx_h100(2)", "all_reduce(t.npus, size: 64MiB)"),
    "tree": (f"fat_tree(4, {LINK})", "all_gather(t.npus, size: 16MiB)"),
    "large": ("dgx_h100(16)", "all_to_all(t.npus, size: 64MiB)"),
}
WIDTHS = (1000, 400)
OVERLAPS = """
() => {
  const found = [];
  for (const svg of document.querySelectorAll('.picture svg')) {
    const nodes = [...svg.querySelectorAll('text:not([transform])')];
    const boxes = nodes.map(node => [node.getBoundingClientRect(), node.textContent]);
    const visible = boxes.filter(([box]) => box.width > 0);
    for (let i = 0; i < visible.length; i++) for (let j = 0; j < i; j++) {
      const [a, s] = visible[i], [b, t] = visible[j];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 0.3 * Math.min(a.height, b.height)) found.push(`${s} over ${t}`);
    }
  }
  return found;
}
"""
BROKEN = """
() => [...document.querySelectorAll('.facts dd:not(.remark)')]
  .filter(node => node.clientHeight > 2 * parseFloat(getComputedStyle(node).fontSize)).map(node => node.textContent)
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of each program, of files for runtimes, and of a schedule that fails its checks."""
    folder = tmp_path_factory.mktemp("reports")
    for name, (topology, run) in PROGRAMS.items():
        text = f"{HEAD}topology t = {topology}\nschedule s on t {{ run {run} }}\n"
        (folder / f"{name}.coll").write_text(text)
        assert main(["show", str(folder / f"{name}.coll"), "-o", str(folder / f"{name}.html")]) == 0
    program = f"{HEAD}topology t = ring(4, {LINK})\n"
    program += 'schedule gather on t { run all_gather(t.npus, size: 4MiB) emit ten("g.ten") emit msccl("g.xml") }\n'
    program += 'schedule sum on t { run all_reduce(t.npus, size: 4MiB) emit mscclpp("g.json") }\n'
    (folder / "two.coll").write_text(program)
    assert main(["compile", str(folder / "two.coll"), "-o", str(folder), "--quiet"]) == 0
    ten = (folder / "g.ten").read_text()
    line = next(line for line in ten.splitlines() if line.strip().startswith("send"))
    (folder / "<b>bad.ten").write_text(ten.replace(line + "\n", "", 1))
    assert main(["show", str(folder / "<b>bad.ten"), "-o", str(folder / "bad.html")]) == 4
    network = ["--on", f"{folder / 'two.coll'}:t", "--size", "4MiB"]
    example = Path(__file__).parent.parent.parent / "examples" / "design.coll"
    assert main(["show", str(example), "-o", str(folder / "design.html")]) == 0
    failing = f"{HEAD}topology t = dgx_h100(4)\nschedule s on t {{ run all_reduce(t.npus, size: 16MiB) "
    failing += "synthesize symmetric failures any 1 of (nics, gpus, nodes), any 2 of nics within node }\n"
    (folder / "failing.coll").write_text(failing)
    assert main(["compile", str(folder / "failing.coll"), "-o", str(folder), "--quiet"]) == 0
    assert main(["show", str(folder / "fallbacks.json"), "-o", str(folder / "fallbacks.html")]) == 0
    for name, file, words in [("xml", "g.xml", network), ("plan", "g.json", []), ("two", "two.coll", [])]:
        assert main(["show", str(folder / file), "-o", str(folder / f"{name}.html"), *words]) == 0
    beside = [str(folder / name) for name in ("g.ten", "g.xml", "torus.coll")]
    assert main(["show", *beside, "-o", str(folder / "beside.html"), *network]) == 0
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = os.environ.get("COLLC_BROWSER") or next(filter(None, map(shutil.which, names)), None)
    with playwright.sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium could be started: {str(error).splitlines()[0]}")
        yield started
        started.close()


def opened(browser: Any, path: Path, width: int = 1000, scheme: str = "light") -> tuple[Any, list[str]]:
    """The page, and a list that gets what goes wrong."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on(
        "request", lambda request: None if request.url == path.as_uri() else wrong.append(f"request: {request.url}")
    )
    page.goto(path.as_uri())
    return page, wrong


NAMES = [*PROGRAMS, "bad", "xml", "plan", "two", "beside", "design", "fallbacks"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_tab_is_drawn_without_errors(browser: Any, reports: Path, name: str, width: int) -> None:
    page, wrong = opened(browser, reports / f"{name}.html", width, "dark" if width == 400 else "light")
    tabs = page.locator("section:not([hidden]) [role=tab]")
    assert tabs.count() >= 2
    for k in range(tabs.count()):
        tabs.nth(k).click()
        panel = page.locator("section:not([hidden]) [role=tabpanel]:not([hidden])")
        assert panel.count() == 1
        box = panel.bounding_box()
        assert box["height"] > 100
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate(OVERLAPS) == []
        assert page.evaluate(BROKEN) == []
        for picture in panel.locator(".picture svg, .sheet svg").all():
            size = picture.bounding_box()
            assert min(size["width"], size["height"]) > 60
    assert wrong == []
    page.close()


@pytest.mark.parametrize(
    ("name", "npus", "switches"), [("mesh", 9, 0), ("torus", 16, 0), ("cluster", 16, 11), ("tree", 16, 20)]
)
def test_the_drawn_elements(browser: Any, reports: Path, name: str, npus: int, switches: int) -> None:
    page, _ = opened(browser, reports / f"{name}.html")
    page.get_by_role("tab", name="Network").click()
    assert page.locator("circle.npu:visible").count() == npus
    assert page.locator("rect.switch:visible").count() == switches
    page.get_by_role("tab", name="Schedule").click()
    assert page.locator(".mark:visible").count() > 2 * npus
    page.close()


def test_colours_follow_the_system(browser: Any, reports: Path) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        page, _ = opened(browser, reports / "mesh.html", scheme=scheme)
        page.get_by_role("tab", name="Network").click()
        styles = "e => [getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(e).stroke]"
        seen[scheme] = page.locator("circle.npu").first.evaluate(styles)
        page.close()
    assert seen["light"][0] == "rgb(255, 255, 255)"
    assert all(a != b for a, b in zip(*seen.values(), strict=True))


def test_tabs_and_tooltips_by_keyboard_and_pointer(browser: Any, reports: Path) -> None:
    page, wrong = opened(browser, reports / "mesh.html")
    first = page.get_by_role("tab", name="Summary")
    first.focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Network").get_attribute("aria-selected") == "true"
    page.keyboard.press("End")
    assert page.get_by_role("tab", name="Utilisation").evaluate("e => e === document.activeElement")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.locator(".picture:visible").first.focus()
    tip = page.locator("#tip")
    assert tip.is_hidden()
    page.keyboard.press("ArrowRight")
    said = tip.text_content()
    assert "npu[0, 0] -> npu[0, 1] and back: 50GiB/s, 500ns" in said
    page.keyboard.press("ArrowRight")
    assert tip.text_content() != said
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.locator("g.mark:has(circle.npu):visible").nth(4).hover()
    assert tip.text_content() == "npu[1, 1], rank 4"
    box, window = tip.bounding_box(), page.viewport_size
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= window["width"]
    page.mouse.move(2, 2)
    assert tip.is_hidden()
    assert wrong == []
    page.close()


def test_names_are_text(browser: Any, reports: Path) -> None:
    page, wrong = opened(browser, reports / "bad.html")
    assert page.locator("h1").text_content() == "<b>bad.ten"
    assert page.locator("h1 b").count() == 0
    assert page.locator(".badge.failed:visible").count() >= 1
    assert wrong == []
    page.close()


def test_without_scripts_everything_is_on_the_page(browser: Any, reports: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((reports / "two.html").as_uri())
    assert page.locator("[role=tabpanel]:visible").count() == page.locator("[role=tabpanel]").count() == 10
    context.close()


def wait_until_clock_passes(page: Any, least: int) -> None:
    for _ in range(400):
        if int(page.locator(".clock").input_value()) > least:
            return
        page.wait_for_timeout(50)
    raise AssertionError("the clock stands still")


def test_chunks_move_and_can_be_followed(browser: Any, reports: Path) -> None:
    """Play, slider, pointer and keyboard; what is said agrees with the schedule: 72 transfers, 9 chunks."""
    svg = reports / "mesh.svg"
    assert main(["show", str(reports / "mesh.coll"), "--svg", str(svg), "--picture", "gantt"]) == 0
    titles = re.findall(r"<title>(.*: .* to .*)</title>", html.unescape(svg.read_text()))
    assert len(titles) == 72
    for scheme in ("light", "dark"):
        page, wrong = opened(browser, reports / "mesh.html", scheme=scheme)
        page.locator("[role=tab]", has_text="Schedule").click()
        said, clock, canvas = page.locator(".said"), page.locator(".clock"), page.locator("canvas").first
        assert "; 0 of 72 transfers have arrived." in said.inner_text()
        empty = canvas.evaluate("node => node.toDataURL()")
        clock.focus()
        page.keyboard.press("End")
        assert "0 links in use; 72 of 72 transfers have arrived." in said.inner_text()
        assert canvas.evaluate("node => node.toDataURL()") != empty
        page.locator(".play").click()
        wait_until_clock_passes(page, 20)
        page.locator(".play").click()
        assert 0 < int(clock.input_value()) < 1000
        canvas.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        assert said.inner_text().startswith("npu[0, 0] at ")
        page.keyboard.press("Escape")
        tips = page.locator("g[data-row]").evaluate_all("nodes => nodes.map(node => node.dataset.tip)")
        assert {*tips} == {*titles}  # as Python writes them
        bar = page.locator("g[data-row]").first
        bar.hover()
        name, _, _ = bar.get_attribute("data-tip").rpartition("]")[0].partition("]")
        assert said.inner_text().startswith(f"{name}]: ")
        chosen = page.locator("g.chosen[data-row]")
        assert 1 < chosen.count() < page.locator("g[data-row]").count()
        page.mouse.move(2, 2)
        page.locator(".critical").click()
        assert said.inner_text().startswith("Critical path: ")
        assert wrong == []
        page.close()


def test_schedules_move_side_by_side_on_one_clock(browser: Any, reports: Path) -> None:
    """Two schedules of a program, and a schedule with an algorithm; what one points at is followed in both."""
    page, wrong = opened(browser, reports / "two.html")
    page.locator("[role=tab]:visible", has_text="Schedule").click()
    beside, said = page.locator(".beside:visible"), page.locator(".said:visible")
    algorithm, *schedules = beside.evaluate("node => [...node.options].slice(1).map(option => option.text)")
    assert schedules == ["sum"]
    second = page.locator(".stage:visible").nth(1)
    for name in (algorithm, "sum"):
        beside.select_option(label=name)
        assert second.locator("p").inner_text() == name
        assert second.locator("canvas").get_attribute("aria-label") == name
        start = second.locator("canvas").evaluate("node => node.toDataURL()")
        page.locator(".clock:visible").fill("300")
        assert re.fullmatch(rf".*s\. gather: .* in use; .*\. {name}: .* in use; .* arrived\.", said.inner_text())
        assert second.locator("canvas").evaluate("node => node.toDataURL()") != start
        page.locator("canvas:visible").first.focus()
        page.keyboard.press("ArrowRight")
        assert re.fullmatch(rf"gather: npu\[0\] at .* {name}: npu\[0\] at .*", said.inner_text())
        page.keyboard.press("Escape")
        page.locator(".critical:visible").click()
        assert re.fullmatch(rf"gather: Critical path: .* {name}: Critical path: .*", said.inner_text())
        page.locator(".critical:visible").click()
        page.locator(".clock:visible").fill("0")
    beside.select_option(label="nothing")
    assert page.locator(".stage:visible").count() == 1
    assert wrong == []
    page.close()


def test_files_are_side_by_side_at_once(browser: Any, reports: Path) -> None:
    page, wrong = opened(browser, reports / "beside.html")
    assert page.locator(".stage:visible p").all_inner_texts() == ["gather of g.ten", "gather of g.xml"]
    page.locator(".clock:visible").fill("300")
    said = page.locator(".said:visible")
    assert re.fullmatch(r".*s\. gather of g\.ten: .* gather of g\.xml: .* arrived\.", said.inner_text())
    page.locator(".beside:visible").select_option(label="s of torus.coll")
    assert page.locator(".stage:visible p").all_inner_texts() == ["gather of g.ten", "s of torus.coll"]
    assert wrong == []
    page.close()


def test_a_large_network_is_drawn_by_node(browser: Any, tmp_path: Path) -> None:
    """160 GPUs as 20 nodes: what is said agrees with the count of links and messages."""
    program = tmp_path / "pod.coll"
    run = "run all_gather(t.npus, size: 160MiB)"
    program.write_text(f"{HEAD}topology t = dgx_h100(20)\nschedule s on t {{ {run} }}\n")
    assert main(["show", str(program), "-o", str(tmp_path / "pod.html")]) == 0
    page, wrong = opened(browser, tmp_path / "pod.html")
    page.locator("[role=tab]:visible", has_text="Schedule").click()
    assert "Each circle is a group of NPUs, such as gpu[0, *]" in page.locator(".moving figcaption").inner_text()
    canvas, said = page.locator("canvas:visible"), page.locator(".said")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    assert re.fullmatch(r"gpu\[0, \*\] at 0ps: about 0 of [\d]+ transfers to it have arrived\.", said.inner_text())
    page.locator(".clock").fill("1000")
    whole = re.search(r"about (\d+) of (\d+)", said.inner_text())
    assert whole is not None
    assert whole[1] == whole[2]
    canvas.focus()
    page.keyboard.press("Escape")
    area = canvas.bounding_box()
    for share in range(20, 80, 3):
        page.mouse.move(area["x"] + area["width"] / 2, area["y"] + area["height"] * share / 100)
        if "->" in said.inner_text():
            break
    assert re.fullmatch(
        r"\S+(?: \*\])? -> \S+(?: \*\])?: [\d]+ transfers, in use \d+ % of the time\.", said.inner_text()
    )
    assert wrong == []
    page.close()


def test_a_report_of_64_npus_is_small(tmp_path: Path) -> None:
    program = tmp_path / "mesh.coll"
    run = "run all_reduce(t.npus, size: 64MiB) synthesize tacos(seed: 1, trials: 1)"
    text = f"{HEAD}topology t = mesh2d(8, 8, {LINK})\nschedule s on t {{ {run} }}\n"
    program.write_text(text)
    assert main(["show", str(program), "-o", str(tmp_path / "mesh.html")]) == 0
    assert (tmp_path / "mesh.html").stat().st_size < 400_000


def test_notebooks_show_the_moving_picture(browser: Any, tmp_path: Path) -> None:
    text = f"{HEAD}topology t = mesh2d(3, 3, {LINK})\nschedule s on t {{ run all_gather(t.npus, size: 9MiB) }}\n"
    report = collc.compile(text)["s"]
    (tmp_path / "cell.html").write_text(f"<!DOCTYPE html><div>{report._repr_html_()}</div>")
    assert "<iframe" not in replace(report, module=None)._repr_html_()
    page, wrong = opened(browser, tmp_path / "cell.html", 700)
    frame = page.frame_locator("iframe")
    assert frame.locator(".said").inner_text() == "0ps. 24 links in use; 0 of 72 transfers have arrived."
    frame.locator(".clock").fill("1000")
    assert "72 of 72 transfers have arrived." in frame.locator(".said").inner_text()
    assert frame.locator("html").evaluate("node => node.scrollHeight <= 430 && node.scrollWidth <= innerWidth")
    assert wrong == []
    page.close()


CONTRASTS = """
() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = color => {
    paint.fillStyle = color; paint.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = node => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (!color.endsWith(", 0)")) return color;
    }
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const words = [...node.childNodes].filter(n => n.nodeType === 3 && n.data.trim()).map(n => n.data).join(" ");
    if (!words || !node.getClientRects().length || node.closest("script, option")) continue;
    const style = getComputedStyle(node);
    const over = node.matches("text") && style.paintOrder.startsWith("stroke") ? style.stroke : behind(node);
    const [a, b] = [light(node.matches("text") ? style.fill : style.color), light(over)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`${words.slice(0, 40)}: ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return found;
}
"""
"""Texts whose contrast is below 4.5, level AA of WCAG 2.2."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["bad", "xml", "design"])
def test_texts_have_contrast(browser: Any, reports: Path, name: str, scheme: str) -> None:
    page, _ = opened(browser, reports / f"{name}.html", scheme=scheme)
    page.emulate_media(reduced_motion="reduce")  # no colour changes slowly
    tabs = page.locator("section:not([hidden]) [role=tab]")
    for k in range(tabs.count()):
        tabs.nth(k).click()
        assert page.evaluate(CONTRASTS) == []
    page.add_style_tag(content="p { color: var(--rule) !important; }")
    assert name == "design" or page.evaluate(CONTRASTS) != []
    page.close()


def test_without_motion_the_clock_jumps(browser: Any, reports: Path) -> None:
    page, wrong = opened(browser, reports / "mesh.html")
    page.emulate_media(reduced_motion="reduce")
    page.locator("[role=tab]", has_text="Schedule").click()
    page.locator(".play").click()
    wait_until_clock_passes(page, 0)
    page.locator(".play").click()
    assert wrong == []
    page.close()
