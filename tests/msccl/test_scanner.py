"""The scanner and the reader: what the runtimes read, and nothing else."""

from __future__ import annotations

import contextlib
import io
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collc.base.diagnostics import UsageError
from collc.msccl.check import check_file
from collc.msccl.check import scanner as scanner_module
from collc.msccl.check.reader import c_integer
from collc.msccl.check.scanner import ScanError, Tag, scan

from .programs import Block, all_to_all, ring_all_gather, write


def tags(text: str | bytes) -> list[Tag]:
    return list(scan(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def test_tags_and_places():
    found = tags('<algo a="1" b="x y">\n  <gpu id="0"/> <tb />\r\n</algo>\n')
    assert [(t.name, t.attributes, t.line, t.column, t.closing, t.single) for t in found] == [
        ("algo", {"a": "1", "b": "x y"}, 1, 1, False, False),
        ("gpu", {"id": "0"}, 2, 3, False, True),
        ("tb", {}, 2, 17, False, True),
        ("algo", {}, 3, 1, True, False),
    ]


def test_comments_are_skipped():
    found = tags("<!-- one\n two --><a><!---->\n<!-- <b/> -- > --></a>")
    assert [t.name for t in found] == ["a", "a"]
    assert found[0].line == 2


@pytest.mark.parametrize("block", [1, 2, 7, 64])
def test_any_block_size_reads_the_same(monkeypatch, block):
    text = ring_all_gather().text().replace("</tb>", "</tb>\n<!-- long " + "x" * 300 + " -->")
    whole = tags(text)
    monkeypatch.setattr(scanner_module, "BLOCK", block)
    assert tags(text) == whole


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ('<?xml version="1.0"?><a/>', 1, 1, "XML declaration"),
        ("<?pi x?><a/>", 1, 1, "processing instruction"),
        ("<!DOCTYPE a><a/>", 1, 1, "document type"),
        ("<a>\n\t<b/></a>", 2, 1, "tab between elements"),
        ("<a>\n hello</a>", 2, 2, "'hello'"),
        ("<a x='1'/>", 1, 4, "single quotes"),
        ('<a  x="1"/>', 1, 3, "more than one blank"),
        ('<a\tx="1"/>', 1, 3, "tab inside"),
        ('<a\nx="1"/>', 1, 3, "line end inside"),
        ('<a x = "1"/>', 1, 4, "blank beside"),
        ('<a x="1"y="2"/>', 1, 9, "no blank before"),
        ('<a x="1&lt;2"/>', 1, 4, "entity"),
        ('<a x="1\n2"/>', 1, 4, "line end in the value"),
        ('<a x="1<2"/>', 1, 4, "'<' in the value"),
        ('<a x="1', 1, 4, "never ends"),
        ("<a x/>", 1, 4, "without a value"),
        ("<a x=1/>", 1, 4, "without quotes"),
        ('<a n:x="1"/>', 1, 4, "namespace"),
        ("<n:a/>", 1, 3, "namespace"),
        ("<a></a >", 1, 7, "closing tag"),
        ("< a/>", 1, 1, "without the name"),
        ("<a><![CDATA[x]]></a>", 1, 4, "CDATA"),
        ("<!-- never", 1, 1, "never ends"),
        ("<!--a=b--><a/>", 1, 5, "holds '='"),
        ('<a x="1" x="2"/>', 1, 1, "twice"),
        ("<a", 1, 3, "ends inside a tag"),
    ],
)
def test_what_it_refuses(text, line, column, words):
    with pytest.raises(ScanError) as error:
        tags(text)
    finding = error.value.finding
    assert words in finding.message
    assert (finding.location.line, finding.location.column) == (line, column)


def test_says_what_a_lenient_parser_would_hide(tmp_path):
    verdict = check_file(write(tmp_path / "f.xml", '<?xml version="1.0"?>\n' + all_to_all().text()))
    assert "an XML parser lets this through" in verdict.diagnostics[0].message
    assert verdict.checks == {"contract": "failed", "result": "skipped", "deadlock": "skipped", "race": "skipped"}


def test_external_entities_are_never_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("42")
    text = f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{secret}">]>' + all_to_all().text().replace('cnt="1"', 'cnt="&x;"')
    verdict = check_file(write(tmp_path / "f.xml", text))
    assert verdict.checks["contract"] == "failed"
    assert all("42" not in d.message for d in verdict.diagnostics)


def test_an_endless_tag_stays_in_bounded_memory():
    class Endless(io.RawIOBase):
        left = 200

        def read(self, size=-1):
            self.left -= 1
            return b'<a x="' if self.left == 199 else b"x" * size if self.left > 0 else b""

    tracemalloc.start()
    with pytest.raises(ScanError):
        list(scan(Endless()))
    assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("0", 0), ("-1", -1), ("+7", 7), ("010", 8), ("0x1F", 31), ("-0x10", -16)),
        *((text, None) for text in ("08", "1a", "", "1.0", " 1", "0b1", "1_0", "٣")),
    ],
)
def test_numbers_are_c_integers(text, value):
    assert c_integer(text) == value


def test_octal_is_said(tmp_path):
    verdict = check_file(write(tmp_path / "f.xml", all_to_all().text().replace('srcoff="1"', 'srcoff="01"', 1)))
    assert verdict.checks["contract"] == "ok"
    assert any(d.warning and "begins with 0" in d.message for d in verdict.diagnostics)


def test_unknown_elements_are_skipped_with_a_warning(tmp_path):
    text = all_to_all().text().replace("</gpu>", '<extra a="1"><tb><step/></tb></extra></gpu>', 1)
    verdict = check_file(write(tmp_path / "f.xml", text))
    assert verdict.ok
    assert [d.code for d in verdict.diagnostics if d.warning] == ["X0104"]


def test_gpus_and_threadblocks_in_any_order(tmp_path):
    text = all_to_all(3).text()
    head, *gpus = text.removesuffix("</algo>\n").split("  <gpu")
    shuffled = head + "".join("  <gpu" + gpu for gpu in reversed(gpus)) + "</algo>\n"
    assert set(check_file(write(tmp_path / "f.xml", shuffled)).checks.values()) == {"ok"}


def test_a_second_algo_ends_the_check(tmp_path):
    text = ring_all_gather(3).text()
    one = check_file(write(tmp_path / "one.xml", text))
    assert one.ok
    two = check_file(write(tmp_path / "two.xml", text + text.splitlines()[0].replace(">", "/>")))
    assert "X0104" in {finding.code for finding in two.findings}
    assert two.checks == {"contract": "failed", "result": "skipped", "deadlock": "skipped", "race": "skipped"}


def test_twenty_threadblocks_at_most_are_reported_for_their_ids(tmp_path):
    file = ring_all_gather(3)
    file.gpus[0].tbs += [Block().add("cpy", ("i", 0), ("o", 0)) for _ in range(38)]
    text = re.sub(r'<tb id="(\d+)"', lambda found: f'<tb id="{int(found[1]) + 1}"', file.text(), count=40)
    told = [message.message for message in check_file(write(tmp_path / "f.xml", text)).diagnostics]
    assert len(told) == 13
    assert told[-1] == "8 more of this kind (contract)"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        check_file(tmp_path / "none.xml")


@given(st.binary(max_size=200))
def test_any_bytes_end_in_tags_or_a_finding(data):
    with contextlib.suppress(ScanError):
        assert all(tag.line >= 1 and tag.column >= 1 for tag in tags(data))


@given(st.data())
def test_any_change_of_one_character_is_handled(tmp_path_factory, data):
    text = ring_all_gather(3).text()
    at = data.draw(st.integers(0, len(text) - 1))
    new = data.draw(st.sampled_from("\t\n <>/\"'&=x019-\0é"))
    path = tmp_path_factory.mktemp("fuzz") / "f.xml"
    verdict = check_file(write(path, text[:at] + new + text[at + 1 :]))
    assert set(verdict.checks.values()) <= {"ok", "failed", "skipped"}
