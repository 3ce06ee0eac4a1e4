"""Charts: what is drawn, where it is, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.pictures.charts import (
    Axis,
    Bars,
    Reference,
    Series,
    bar_chart,
    bytes_label,
    heat_map,
    line_chart,
    number_label,
    percent_label,
    range_of,
    rate_label,
    time_label,
)
from collc.pictures.picture import (
    MOST_MARKS,
    THEMES,
    colors_of,
    escape_text,
    heat_color,
    level_of,
    number,
    shorten,
    style_sheet,
    text_width,
)
from tests.pictures.drawn import SVG, overlaps, root_of, texts, tips

TIME = Axis("time", text=time_label)
SIZES = Axis("size", "log2", bytes_label)
NAMES = ["tacos", "ring", "bidirectional_ring", "direct", "double_binary_tree", "hierarchical", "themis", "ideal"]


def lines(count: int) -> list[Series]:
    return [Series(name, [(2.0**k, (i + 1) * 1e6 * k) for k in range(20, 31)]) for i, name in enumerate(NAMES[:count])]


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_line_chart_has_a_line_and_markers_for_each_series(count: int) -> None:
    picture = line_chart(lines(count), title="Time", x=SIZES, y=TIME, references=[Reference("bound", 5e6)])
    drawn = root_of(picture)
    strokes = [p for p in drawn.iter(f"{SVG}path") if (p.get("class") or "").startswith("s") and "L" in p.get("d", "")]
    assert len(strokes) == count
    assert len({(p.get("class"), p.get("stroke-dasharray")) for p in strokes}) == count
    assert len(tips(picture)) == 11 * count + 1
    assert "tacos: 20us at size 1MiB" in tips(picture)
    assert overlaps(picture) == []
    if count > 1:
        assert set(NAMES[:count]) <= set(texts(picture))


def test_points_are_where_their_values_are() -> None:
    picture = line_chart([Series("a", [(0, 0), (5, 50), (10, 100)])], title="t", x=Axis("x"), y=Axis("y"))
    path = next(p for p in root_of(picture).iter(f"{SVG}path") if p.get("class") == "s0")
    (x0, y0), (x1, y1), (x2, y2) = (map(float, point.split()) for point in path.get("d", "")[1:].split("L"))
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.02)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.02)
    assert y2 < y0


def test_steps_hold_until_the_next_point() -> None:
    picture = line_chart([Series("a", [(0, 1), (1, 2)], steps=True)], title="t", x=Axis("x"), y=Axis("y"))
    path = next(p for p in root_of(picture).iter(f"{SVG}path") if p.get("class") == "s0")
    assert "H" in path.get("d", "")
    assert "V" in path.get("d", "")


def test_bars_are_as_long_as_their_values() -> None:
    picture = bar_chart(NAMES, [Bars("", [1e6 * (k + 1) for k in range(8)])], title="t", value=TIME)
    widths = [float(r.get("width", 0)) for r in root_of(picture).iter(f"{SVG}rect") if r.get("class") == "f0"]
    assert widths == pytest.approx([widths[0] * (k + 1) for k in range(8)], abs=0.1)
    assert overlaps(picture) == []


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_groups_of_bars(scale: str) -> None:
    axis = Axis("time", "log" if scale == "log" else "linear", time_label)
    bars = [Bars("ours", [8e6, None, 3e8]), Bars("theirs", [8e7, 1e8, 1e8])]
    picture = bar_chart(["a", "b" * 90, "c"], bars, title="t", value=axis, references=[Reference("ideal", 5e6)])
    assert "a, ours: 8us" in tips(picture)
    assert overlaps(picture) == []
    assert any("…" in label for label in texts(picture))


def test_references_of_bars_have_lines_of_their_own() -> None:
    bounds = [Reference("bound", 8e6), Reference("ideal", 7.9e6)]
    picture = bar_chart(["a"], [Bars("", [9e6])], title="t", value=TIME, references=bounds)
    assert overlaps(picture) == []
    assert {"bound: 8us", "ideal: 7.9us"} <= set(texts(picture))


@pytest.mark.parametrize("size", [2, 16, 39, 40, 120])
def test_heat_maps_of_any_size(size: int) -> None:
    names = [f"npu[{k // 8}, {k % 8}]" for k in range(size)]
    values = [[None if i == j else float(i + j) for j in range(size)] for i in range(size)]
    picture = heat_map(names, names, values, title="t", value=Axis("bytes", text=bytes_label), row_title="sender")
    assert overlaps(picture) == []
    if size * (size - 1) <= MOST_MARKS:
        assert len(tips(picture)) == size * (size - 1)
    else:
        assert 1 < len(root_of(picture).findall(f".//{SVG}g/{SVG}g")) <= 16
    assert len(picture.file()) < 600_000


def test_wrong_values_are_refused() -> None:
    axis = Axis("y", "log")
    with pytest.raises(ValueError, match="positive values only"):
        line_chart([Series("a", [(1, 0)])], title="t", x=Axis("x"), y=axis)
    with pytest.raises(ValueError, match="finite"):
        line_chart([Series("a", [(1, float("nan"))])], title="t", x=Axis("x"), y=Axis("y"))
    with pytest.raises(ValueError, match="one value for each label"):
        bar_chart(["a", "b"], [Bars("", [1])], title="t", value=axis)
    with pytest.raises(ValueError, match="negative"):
        bar_chart(["a"], [Bars("", [-1])], title="t", value=axis)
    with pytest.raises(ValueError, match="row and column"):
        heat_map(["a"], ["b"], [[1, 2]], title="t", value=axis)
    with pytest.raises(ValueError, match="infinite"):
        heat_map(["a"], ["b"], [[float("inf")]], title="t", value=axis)


def test_empty_charts_are_drawn() -> None:
    root_of(line_chart([], title="t", x=Axis("x"), y=Axis("y")))
    root_of(line_chart([Series("a", [(3, 3)])], title="t", x=Axis("x", "log"), y=Axis("y", "log2")))
    root_of(bar_chart([], [], title="t", value=Axis("x")))
    root_of(heat_map([], [], [], title="t", value=Axis("x")))


def test_names_are_escaped() -> None:
    evil = '<script>alert("1")</script>&\x00\x1b'
    pictures = [
        line_chart([Series(evil, [(0, 1)]), Series(evil, [(1, 1)])], title=evil, x=Axis(evil), y=Axis(evil)),
        bar_chart([evil], [Bars(evil, [1]), Bars(evil, [2])], title=evil, value=Axis(evil)),
        heat_map([evil], [evil], [[1]], title=evil, value=Axis(evil), row_title=evil, description=evil),
    ]
    for picture in pictures:
        root_of(picture)
        assert "<script" not in picture.file() + picture.inline("x")


def test_labels() -> None:
    assert [time_label(x) for x in (0, 1e6, 80_125_000)] == ["0", "1us", "80.12us"]
    assert [bytes_label(x) for x in (0, 512, 1.5 * 2**20)] == ["0", "512B", "1.5MiB"]
    assert [rate_label(x) for x in (0, 1e10, 62.5e9)] == ["0", "10GB/s", "62.5GB/s"]
    assert [number_label(x) for x in (0, 0.25, 1200, 35_000, 2e6)] == ["0", "0.25", "1200", "35k", "2M"]
    assert [percent_label(x) for x in (0, 0.625, 1)] == ["0 %", "62.5 %", "100 %"]


@settings(max_examples=24, deadline=None)
@given(st.lists(st.floats(1e-3, 1e15), min_size=1, max_size=5), st.sampled_from(["linear", "log", "log2"]))
def test_ticks_are_in_the_range_and_ascend(values: list[float], scale: str) -> None:
    axis = Axis("x", scale)  # pyright: ignore[reportArgumentType]
    found = range_of(axis, values, 0, 100)
    assert all(-1e-6 <= found.at(value) <= 100 + 1e-6 for value in values)
    for most in (1, 3, 6, 10):
        ticks = found.ticks(most)
        assert ticks == sorted(set(ticks))
        assert 1 <= len(ticks) <= most + 2
        assert all(-0.01 <= found.at(tick) <= 100.01 for tick in ticks)


def luminance(color: str) -> float:
    """Relative luminance (WCAG 2.1)."""
    channels = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(theme: str) -> None:
    """Text 4.5:1, lines and bars 3:1 (WCAG 2.1, 1.4.3 and 1.4.11)."""
    colors = THEMES[theme]  # pyright: ignore[reportArgumentType]
    for name, least in [("ink", 4.5), ("muted", 4.5), ("bad", 4.5), *((f"c{k}", 3) for k in range(8))]:
        high, low = sorted((luminance(colors[name]), luminance(colors["paper"])), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= least, name


def test_heat_colors_stand_out_more_and_more() -> None:
    for theme, falls in (("light", True), ("dark", False)):
        found = [luminance(heat_color(theme, level)) for level in range(16)]  # pyright: ignore[reportArgumentType]
        assert found == sorted(found, reverse=falls)
    assert [level_of(value, 8) for value in (0, 1, 4, 7.9, 8)] == [0, 2, 8, 15, 15]
    assert level_of(0, 0) == 0


def test_texts_are_shortened_in_the_middle() -> None:
    assert shorten("npu[0, 0]", 100) == "npu[0, 0]"
    cut = shorten("a_very_long_name_of_a_device", 80)
    assert text_width(cut) <= 80
    assert cut.startswith("a_v")
    assert cut.endswith("ce")
    assert shorten("abc", 1) == "…"


def test_numbers_and_style() -> None:
    assert [number(x) for x in (0, -0.001, 1.005, 100, -2.5)] == ["0", "0", "1", "100", "-2.5"]
    assert escape_text("a<b>&\x07") == "a&lt;b&gt;&amp;\N{REPLACEMENT CHARACTER}"
    scoped = style_sheet(colors_of("light"), ".picture")
    assert ".picture .s0 {" in scoped
    assert ".picture text {" in scoped
    assert "{ink}" not in scoped
