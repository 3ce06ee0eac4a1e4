"""The written file and the options of `emit msccl`."""

from fractions import Fraction

import pytest

from collc.base.diagnostics import SourceError, SourceFile, Span
from collc.base.options import OptionValue, check_values
from collc.emit.kinds import EMIT_KINDS
from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions, Placement, Profile, Protocol, msccl_options
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
    """A step that waits for several threadblocks waits for all but one of them by steps that do nothing."""
    text = xml_of(lower(scheduled(support.grid(3, 4), support.all_to_all(list(range(12)), chunks=4)))).decode()
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
    options = msccl_options(
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
    assert msccl_options({}) == MscclOptions()


@pytest.mark.parametrize(
    ("kind", "name", "content", "code", "words"),
    [
        ("msccl", "instance", value("int", 2), "E0604", "emit msccl has no option 'instance'"),
        ("msccl", "instances", value("bytes", 2), "E0605", "not bytes"),
        ("msccl", "instances", value("bool", True), "E0605", "not bool"),
        ("msccl", "instances", value("int", 0), "E0605", "at least 1"),
        ("msccl", "channels", value("int", 33), "E0605", "at most 32"),
        ("msccl", "channels", value("time", Fraction(1)), "E0605", "not time"),
        ("msccl", "protocol", value("string", "simple"), "E0605", "cannot be"),
        ("msccl", "sizes", value("bytes", 1), "E0605", "of type range"),
        ("msccl", "sizes", value("range", (5, 1)), "E0605", "empty range"),
        ("mscclpp", "profile", value("string", "old"), "E0604", "emit mscclpp has no option 'profile'"),
        ("mscclpp", "channels", value("int", 4), "E0604", "emit mscclpp has no option 'channels'"),
        ("mscclpp", "protocol", value("string", "LL128"), "E0605", "cannot be"),
        ("mscclpp", "placement", value("string", "both"), "E0605", "cannot be"),
    ],
)
def test_wrong_options_are_explained(kind, name, content, code, words):
    with pytest.raises(SourceError) as caught:
        check_values({name: content}, EMIT_KINDS[kind].options, f"emit {kind}")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert words in diagnostic.message
    assert diagnostic.span is HERE


def test_options_that_no_runtime_has_together():
    with pytest.raises(SourceError, match="only the old runtime"):
        msccl_options({"coll": value("string", "custom")})
    assert msccl_options({"coll": value("string", "custom")}, "mscclpp").custom
    with pytest.raises(SourceError, match="no buffer"):
        msccl_options({"sizes": value("range", (0, 0))})
