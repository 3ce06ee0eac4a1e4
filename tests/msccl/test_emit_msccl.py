"""The written file and the options of `emit msccl`."""

from fractions import Fraction

import pytest

from collc.base.diagnostics import SourceError, SourceFile, Span
from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions, Placement, Profile, Protocol, options_of
from collc.source.program import OptionValue
from tests import support
from tests.msccl.lowering import by_hand, scheduled, xml_of

HERE = Span(SourceFile("a.coll", "emit msccl(...)"), 0, 4)

PAIR = """\
<algo name="hand_root_0" nchunksperloop="1" nchannels="1" ngpus="2" proto="Simple" coll="broadcast" inplace="1" \
outofplace="1" minBytes="0" maxBytes="0">
  <gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0">
    <tb id="0" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="0" o_chunks="1" s_chunks="0">
    <tb id="0" send="-1" recv="0" chan="0">
      <step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"""


def pair():
    return by_hand(support.ring(2), support.broadcast([0, 1]), [(0, 0, 1, 0)])


def test_the_smallest_file():
    assert xml_of(lower(pair())).decode() == PAIR


def test_dependencies_are_written_with_nops():
    """A GPU that adds up what several others send it may pass the sum on once all of it is there."""
    text = xml_of(lower(scheduled(support.grid(3, 3), support.reduce_scatter(list(range(9)), chunks=2)))).decode()
    nops = [line for line in text.splitlines() if 'type="nop"' in line]
    assert nops
    assert all('cnt="0"' in line and 'depid="-1"' not in line and 'hasdep="0"' in line for line in nops)


@pytest.mark.parametrize(
    ("profile", "sizes", "expected"),
    [
        (Profile.EXECUTOR, (0, None), 'minBytes="0" maxBytes="0"'),
        (Profile.EXECUTOR, (1024, 4096), 'minBytes="1024" maxBytes="4096"'),
        (Profile.OLD, (1024, 4096), 'minBytes="1024" maxBytes="4097"'),
        (Profile.OLD, (0, None), f'minBytes="0" maxBytes="{1 << 62}"'),
    ],
)
def test_sizes_as_each_runtime_reads_them(profile, sizes, expected):
    assert expected in xml_of(lower(pair(), MscclOptions(profile=profile, sizes=sizes))).decode()


def test_names_of_collectives_differ_between_the_runtimes():
    module = scheduled(support.ring(2), support.reduce_scatter([0, 1]))
    assert b'coll="reducescatter"' in xml_of(lower(module))
    assert b'coll="reduce_scatter"' in xml_of(lower(module, MscclOptions(profile=Profile.OLD)))
    assert b'redop="sum"' in xml_of(lower(module))


def value(kind: str, content: object) -> OptionValue:
    return OptionValue(kind, content, HERE)  # type: ignore[arg-type]


def test_all_options_are_read():
    options = options_of(
        {
            "instances": value("int", 2),
            "protocol": value("string", "LL128"),
            "channels": value("int", 8),
            "sizes": value("range", (64 << 20, 4 << 30)),
            "profile": value("string", "old"),
            "placement": value("string", "in"),
        }
    )
    expected = MscclOptions(2, Protocol.LL128, 8, (64 << 20, 4 << 30), Profile.OLD, Placement.IN)
    assert options == expected
    assert options_of({}) == MscclOptions()


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("instance", value("int", 2), "M0101", "no option 'instance'"),
        ("instances", value("bytes", 2), "M0102", "not a bytes"),
        ("instances", value("bool", True), "M0102", "not a bool"),
        ("instances", value("int", 0), "M0103", "1 to 32"),
        ("channels", value("int", 33), "M0103", "1 to 32"),
        ("channels", value("time", Fraction(1)), "M0102", "not a time"),
        ("protocol", value("string", "simple"), "M0103", "not known"),
        ("placement", value("int", 1), "M0102", '"both"'),
        ("sizes", value("bytes", 1), "M0102", "64MiB .. 4GiB"),
        ("sizes", value("range", (5, 1)), "M0103", "no buffer"),
    ],
)
def test_wrong_options_are_explained(name, content, code, words):
    with pytest.raises(SourceError) as caught:
        options_of({name: content})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert words in diagnostic.message
    assert diagnostic.span is HERE


def test_several_wrong_options_are_reported_at_once():
    with pytest.raises(SourceError) as caught:
        options_of({"a": value("int", 1), "b": value("int", 1)})
    assert len(caught.value.diagnostics) == 2
    with pytest.raises(SourceError) as caught:
        options_of({"protocol": value("string", "SIMPLE")})
    assert caught.value.diagnostics[0].hint == 'did you mean "Simple"?'
