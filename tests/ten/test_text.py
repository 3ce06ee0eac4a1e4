"""The text form prints and reads back exactly, and refuses everything else with a message."""

from __future__ import annotations

import io
import re
from pathlib import Path

import lark
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import SourceError, SourceFile
from collc.ten.module import Bound, Module
from collc.ten.schedule import LinkModel, RowSchedule, StepSchedule, Transfers
from collc.ten.text import format_module, parse_module, write_module
from collc.ten.text.names import word
from collc.verification import verify_schedule
from tests.support import all_gather, all_reduce, dgx1, grid, ring, switched
from tests.ten.modules import content, modules

GRAMMAR = Path(__file__).parents[2] / "grammar" / "ten.lark"
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def grammar() -> lark.Lark:
    return lark.Lark(GRAMMAR.read_text(), parser="lalr", lexer="basic", strict=True)


def read(text: str) -> Module:
    return parse_module(SourceFile("test.ten", text))


def accepted(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.UnexpectedInput:
        return False
    return True


def example() -> Module:
    rows = Transfers.of(np.array([0, 3, 1]), np.array([0, 1, 2]), np.array([0, 0, 20_031_250]))
    return Module(
        "quick",
        ring(4),
        all_gather([0, 1, 2, 3]),
        schedule=RowSchedule(LinkModel.STORE, rows),
        algorithm="tacos{seed=7}",
        seed=7,
        bound=Bound(40_062_500, "the links into npu[0]"),
        notes=("tried 2",),
    )


GOOD = format_module(example())


def test_the_form_of_an_example() -> None:
    lines = GOOD.splitlines()
    assert lines[:6] == [
        "ten 1",
        'module "quick"',
        "model store",
        'algorithm "tacos{seed=7}"',
        "seed 7",
        'bound 40.0625us "the links into npu[0]"',
    ]
    assert "    kind 0 latency 0.5us bandwidth 50GiB/s" in lines
    assert "        chunk x[1, 0] 1MiB pre @1 post @4" in lines
    assert lines[-7:] == [
        "schedule store rows {",
        "    at 0us",
        "        send 0:x[0, 0] over npu[0] -> npu[1]",
        "        send 0:x[3, 0] over npu[1] -> npu[0]",
        "    at 20.03125us",
        "        send 0:x[1, 0] over npu[1] -> npu[2]",
        "}",
    ]


@SLOW
@given(modules())
def test_prints_and_reads_back(module: Module) -> None:
    text = format_module(module)
    again = read(text)
    assert content(again) == content(module)
    assert format_module(again) == text


def test_all_words_of_the_grammar_are_names_if_they_are_written_so(grammar: lark.Lark) -> None:
    for name in set(re.findall(r'"([a-z0-9]+)"', GRAMMAR.read_text())):
        text = re.sub(r"\bx\b", word(name), GOOD)
        assert accepted(grammar, text), name
        assert format_module(read(text)) == text


@SLOW
@given(modules(), st.data())
def test_reader_and_grammar_accept_the_same(grammar: lark.Lark, module: Module, data: st.DataObject) -> None:
    text = format_module(module)
    assert accepted(grammar, text)
    pieces = [
        "",
        " ",
        "\n",
        "# c\n",
        "{",
        "}",
        "[0]",
        "%0",
        "@0",
        '"x"',
        "send",
        "lane 1",
        "3",
        "1us",
        "0..2",
        "->",
        "é",
    ]
    for _ in range(4):
        low = data.draw(st.integers(0, len(text)))
        high = data.draw(st.integers(low, min(len(text), low + 6)))
        broken = text[:low] + data.draw(st.sampled_from(pieces)) + text[high:]
        codes = set()
        try:
            read(broken)
        except SourceError as error:
            codes = {d.code for d in error.diagnostics if d.span is not None}
        if accepted(grammar, broken):
            assert not codes & {"T0101", "T0102"}, broken
        else:
            # A wrong number or name before the syntax error is reported first.
            assert codes, broken


def test_parallel_links_are_lanes() -> None:
    rows = Transfers.of(np.array([0, 0]), np.array([4, 5]), np.array([0, 0]), True)
    model = LinkModel.PIPELINED
    module = Module("m", dgx1(), all_reduce(list(range(8))), model, RowSchedule(model, rows))
    text = format_module(module)
    assert "reduce 0:x[0, 0] over npu[0] -> npu[4]\n" in text
    assert "reduce 0:x[0, 0] over npu[0] -> npu[4] lane 1\n" in text
    assert content(read(text)) == content(module)


def on_two_lanes(text_rows: bool) -> Module:
    """Both lanes from 0 to 1 of a DGX-1 carry a chunk; its links belong to an axis."""
    model = LinkModel.STORE
    table = np.full((1, 48), 65535, np.uint16)
    table[0, :2] = 0, 0
    rows = Transfers.of(np.array([0, 0]), np.array([0, 1]), np.array([0, 0]))
    schedule = RowSchedule(model, rows) if text_rows else StepSchedule(model, table, 7, 0)
    return Module("m", dgx1(), all_gather(list(range(8))), schedule=schedule)


@pytest.mark.parametrize("rows", [False, True], ids=["steps", "rows"])
@pytest.mark.parametrize(
    ("line", "in_two"),
    [
        (" -> npu[1] lane 1\n", " -> npu[1]\nlane 1\n"),
        (" -> npu[1] lane 1\n", "\n-> npu[1] # which\n lane\n1\n"),
        ("npu[1] kind 0 axis 0\n", "npu[1] kind 0\n    axis 0\n"),
    ],
)
def test_a_line_may_go_on_in_the_next(grammar: lark.Lark, rows: bool, line: str, in_two: str) -> None:
    text = format_module(on_two_lanes(rows)).replace("    kind 0", "    axis ring 8\n    kind 0")
    text = text.replace("-> npu[1] kind 0\n", "-> npu[1] kind 0 axis 0\n")
    assert text.count(line)
    changed = text.replace(line, in_two)
    assert accepted(grammar, changed)
    assert format_module(read(changed)) == format_module(read(text)) == text


def test_step_by_link_tables_keep_their_layout() -> None:
    chunk = np.full((3, 8), 65535, np.uint16)
    chunk[0, 1], chunk[2, 3] = 2, 1
    module = Module("m", ring(4), all_gather([0, 1, 2, 3]), schedule=StepSchedule(LinkModel.STORE, chunk, 7, 1))
    text = format_module(module)
    assert "schedule store steps 3 of 0.000007us as uint16 reduce 1 {" in text
    assert content(read(text)) == content(module)


def test_streaming_writes_the_same() -> None:
    file = io.StringIO()
    write_module(example(), file)
    assert file.getvalue() == GOOD


@given(module=modules())
@settings(max_examples=30)
def test_lines_that_are_written_at_once_do_not_change_the_text(module: Module) -> None:
    whole = format_module(module)
    for block in (1, 2, 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("collc.ten.text.write._BLOCK", block)
            assert format_module(module) == whole


def test_reads_what_a_person_wrote() -> None:
    messy = GOOD.replace("npu[0] -> npu[1]", 'npu [ 0 ]\n->"npu"[1]').replace(
        "send 0:x[0, 0]", "send 0 : x[0,0] # hm\n"
    )
    messy = (
        messy.replace("    at 20.03125us", "at 20031250ps").replace("0:x[3, 0]", "%3").replace("50GiB/s", "51200MiB/s")
    )
    assert content(read(messy)) == content(example())


def test_unsorted_rows_are_sorted() -> None:
    head, _, _ = GOOD.partition("    at 0us")
    text = head + "at 5ps send %1 over %3 at 1ps send %2 over %0 }"
    schedule = read(text).schedule
    assert schedule is not None
    assert schedule.transfers.start.tolist() == [1, 5]


WRONG = [
    ("ten 1", "ten 2", "T0103"),
    ("ten 1", "tan 1", "T0102"),
    ('"quick"', '"quick', "T0101"),
    ('"quick"', '"qu\\ick"', "T0101"),
    ('"quick"', "quick", "T0102"),
    ("seed 7", "seed 7.5", "T0101"),
    ("seed 7", "seed 99999999999999999999999", "T0104"),
    ("40.0625us", "40.06250000001us", "T0105"),
    ("40.0625us", "40GiB", "T0105"),
    ("40.0625us", "40parsec", "T0105"),
    ("40.0625us", "-1us", "T0104"),
    ("40.0625us", "1/0us", "T0105"),
    ("npus 4", "npus 99999999", "T0104"),
    ("npus 4", "npus -1", "T0104"),
    ("npus 4", "npus 3", "T0107"),
    ("names npu[4] from 0", "names npu[4] from 0 strides [1, 1]", "T0107"),
    ("names npu[4] from 0", "names npu[4] from 0 strides [0]", "T0107"),
    ("names npu[4] from 0", "names npu[99999, 99999] from 0", "T0107"),
    ("names npu[4] from 0", f"names {'a' * 1001}[4] from 0", "T0108"),
    ("    kind 0", "    limits {0, 1} eject 1GB/s limits {1..3} inject 1GB/s kind 0", "T0107"),
    ("    kind 0", "    limits {2, 2} eject 1GB/s kind 0", "T0107"),
    ("switches 0\n    names npu[4] from 0", "switches 1 names npu[4] from 0 options {4} buffer 1 options {4}", "T0107"),
    ("kind 0 latency", "kind 1 latency", "T0107"),
    ("bandwidth 50GiB/s", "bandwidth 0GiB/s", "T0104"),
    ("bandwidth 50GiB/s", "bandwidth 50", "T0102"),
    ("link npu[0] -> npu[1] kind 0", "link npu[0] -> npu[9] kind 0", "T0106"),
    ("link npu[0] -> npu[1] kind 0", "link npu[0] -> npu[1] kind 1", "T0104"),
    ("link npu[0] -> npu[1] kind 0", "link npu[0] -> npu[1] kind 0 axis 0", "T0104"),
    ("group [0..4]", "group [0..5]", "T0104"),
    ("group [0..4]", "group [0, 0, 1, 2, 3]", "T0108"),
    ("group [0..4]", "group [0, 0, 1, 2]", "T0107"),
    ("group [0..4]", "group []", "T0107"),
    ("group [0..4] standard all_gather 4MiB chunks 1", "group []", "T0107"),
    ("group [0..4] standard all_gather 4MiB chunks 1", "group [0, 0]", "T0107"),
    ("    kind 0", "    removed {2} kind 0", "T0107"),
    ("standard all_gather 4MiB", "standard all_gather 4us", "T0105"),
    ("standard all_gather 4MiB", "standard all_gather 4194305B", "T0107"),
    ("standard all_gather 4MiB", "standard all_to_all 4MiB", "T0107"),
    ("model store", "model pipelined", "T0107"),
    ("schedule store", "schedule pipelined", "T0107"),
    ("set @1 =", "set @2 =", "T0107"),
    ("set @4 = {0..4}", "set @4 = {3, 2}", "T0107"),
    ("set @4 = {0..4}", "set @4 = {2..1}", "T0104"),
    ("set @4 = {0..4}", "set @4 = {0..}", "T0102"),
    ("family x 2", "family x 65", "T0104"),
    ("chunk x[1, 0] 1MiB pre @1", "chunk y[1, 0] 1MiB pre @1", "T0106"),
    ("chunk x[1, 0] 1MiB pre @1", "chunk x[1] 1MiB pre @1", "T0106"),
    ("chunk x[1, 0] 1MiB pre @1", "chunk x[1, 0] 0.3B pre @1", "T0105"),
    ("chunk x[1, 0] 1MiB pre @1", "chunk x[1, 0] 99999999PiB pre @1", "T0104"),
    ("chunk x[1, 0] 1MiB pre @1", "chunk x[1, 0] 1MiB pre @5", "T0104"),
    ("send 0:x[3, 0]", "send 1:x[3, 0]", "T0106"),
    ("send 0:x[3, 0]", "send 0:x[4, 0]", "T0106"),
    ("send 0:x[3, 0]", "send 0:model[3, 0]", "T0102"),
    ("send 0:x[3, 0]", "copy 0:x[3, 0]", "T0102"),
    ("over npu[1] -> npu[0]", "over npu[1] -> npu[3]", "T0106"),
    ("over npu[1] -> npu[0]", "over npu[1] -> npu[0] lane 1", "T0106"),
    ("at 0us", "at 0", "T0102"),
    ("at 20.03125us", "at 99999999999s", "T0104"),
]


@pytest.mark.parametrize(("old", "new", "code"), WRONG)
def test_mistakes_are_named(old: str, new: str, code: str) -> None:
    assert old in GOOD
    with pytest.raises(SourceError) as caught:
        read(GOOD.replace(old, new, 1))
    (found,) = caught.value.diagnostics
    assert found.code == code, found
    assert found.span is not None
    assert found.span.line >= 1


def test_a_short_file_has_no_groups_of_gigabytes() -> None:
    text = f"{GOOD[: GOOD.index('npus 4')]}npus 100000 switches 0 }} demand {{{'run x group [0..100000] {}' * 1001}}}"
    with pytest.raises(SourceError, match="the groups of all runs have more than 100000000 members"):
        read(text)


def test_an_unwound_network_has_no_switches() -> None:
    text = GOOD.replace("    switches 0", "    switches 1")
    assert read(text).network.switch_count == 1
    with pytest.raises(SourceError, match=r"T0107.*'unwound' has no switches, and this one has 1"):
        read(re.sub('(network "[^"]*")', r"\1 unwound", text))


def test_position_of_a_mistake() -> None:
    with pytest.raises(SourceError) as caught:
        read(GOOD.replace("over npu[1] -> npu[0]", "over npu[1] -> npu[3]", 1))
    (found,) = caught.value.diagnostics
    line = next(n for n, text in enumerate(GOOD.splitlines(), 1) if "0:x[3, 0] over" in text)
    assert found.span is not None
    assert (found.span.line, found.span.column) == (line, 29)
    assert "npu[1] -> npu[3]" in found.message


def test_a_keyword_as_a_name_gets_a_hint() -> None:
    with pytest.raises(SourceError) as caught:
        read(GOOD.replace("family x", "family send"))
    assert '"send"' in caught.value.diagnostics[0].hint


def test_wrong_step_by_link_tables_are_refused() -> None:
    chunk = np.full((2, 8), 65535, np.uint16)
    chunk[0, 0], chunk[1, 0] = 0, 1
    module = Module("m", ring(4), all_gather([0, 1, 2, 3]), schedule=StepSchedule(LinkModel.STORE, chunk, 7, 1))
    text = format_module(module)
    for old, new, code in [
        ("steps 2 of", "steps 1 of", "T0104"),
        ("steps 2 of", "steps 3 of", "T0109"),
        ("of 0.000007us", "of 4611686018427.387904us", "T0109"),
        ("steps 2 of", "steps 900000000 of", "T0108"),
        ("steps 2 of", "steps 100001 of", "T0108"),
        ("of 0.000007us", "of 0us", "T0104"),
        ("uint16", "uint8", "T0102"),
        ("step 1", "step 0", "T0109"),
        ("reduce 1 {", "{", "T0109"),
        ("0:x[1, 0] over", "%65535 over", "T0109"),
        ("npu[0] -> npu[1]\n}", "%77 }", "T0109"),
        ("over npu[0] -> npu[1]\n}", "over %8 }", "T0109"),
    ]:
        if old not in text:
            continue
        with pytest.raises(SourceError) as caught:
            read(text.replace(old, new, 1))
        assert caught.value.diagnostics[0].code == code, (old, new)


@SLOW
@given(st.one_of(st.text(), st.text(alphabet='ten 1module"{}[]%@.->0159us#\n\\')))
def test_random_text_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(SourceError):
        read(text)


@pytest.mark.parametrize(
    "text", ["", "ten", "ten 1", "ten 1 module", '"' * 50_000, "#" * 100_000, " " * 200_000 + "\x00"]
)
def test_edge_cases_are_refused_with_a_message(text: str) -> None:
    with pytest.raises(SourceError):
        read(text)


def test_nesting_is_limited() -> None:
    body = GOOD.removeprefix("ten 1\n")
    deep = body
    for _ in range(10):
        deep = f"{body}phase {{ {deep} }}"
    with pytest.raises(SourceError) as caught:
        read("ten 1 " + deep)
    assert caught.value.diagnostics[0].code == "T0108"


@pytest.mark.parametrize("net", [grid(3, 3), switched(4, buffer=3, multicast=True), dgx1()])
def test_networks_keep_their_switches(net) -> None:
    module = Module("m", net, all_gather(list(range(net.npu_count))))
    assert content(read(format_module(module)).network) == content(net)


def test_the_example_of_the_docs_is_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ten.md").read_text("utf-8")
    text = next(block for block in page.split("```\n") if block.startswith("ten 1"))
    module = read(text)
    assert format_module(module) == text
    assert verify_schedule(module).ok
