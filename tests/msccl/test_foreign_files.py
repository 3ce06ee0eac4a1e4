"""Files in the style of public tools, with the faults that such files are known for: each is named."""

from __future__ import annotations

from pathlib import Path

from collc.msccl.check import Summary, check_file
from collc.msccl.check.findings import Verdict

FILES = Path(__file__).parent / "files"


def verdict(name: str, **options) -> Verdict[Summary]:
    return check_file(FILES / name, **options)


def test_attributes_that_the_executor_wants_are_missing():
    """The old runtime has defaults for the sizes, and ignores outofplace."""
    found = verdict("tools_all_gather.xml").findings
    missing = ("outofplace", "minBytes", "maxBytes")
    assert [f.message for f in found] == [f"attribute {name} of <algo> is missing" for name in missing]
    assert all(f.code == "X0105" for f in found)
    assert verdict("tools_all_gather.xml", profile="old").ok


def test_the_operand_of_a_reduction_is_the_senders():
    checked = verdict("tools_reduce_scatter.xml")
    assert checked.checks == {"contract": "ok", "result": "failed", "deadlock": "ok", "race": "ok"}
    named = [(f.code, f.location.gpu, f.location.step) for f in checked.findings]
    assert named == [("X0132", gpu, step) for gpu in range(3) for step in (1, 2)]
    assert all("local/remote mix-up" in f.message for f in checked.findings)


def test_scratch_is_used_again_without_a_dependency():
    checked = verdict("tools_broadcast.xml")
    assert checked.checks["race"] == "failed"
    races = [f for f in checked.findings if f.check == "race"]
    # The second receive overwrites what threadblock 1 may not have sent and copied yet.
    assert {(f.location.tb, f.location.step, f.also[0][1].tb, f.also[0][1].step) for f in races} >= {(0, 1, 1, 0)}
    assert all("touch s[0]" in f.message for f in races)


def test_it_hangs_above_64_mib(tmp_path):
    """8 chunks of a 128th: at 64 MiB four of them fit into a message, above only three; two messages into a FIFO."""
    text = (FILES / "tools_all_to_all.xml").read_text()
    safe = tmp_path / "safe.xml"
    safe.write_text(text.replace('maxBytes="0"', 'maxBytes="67108864"'))
    assert check_file(safe).ok
    checked = verdict("tools_all_to_all.xml")
    assert checked.checks == {"contract": "ok", "result": "ok", "deadlock": "failed", "race": "ok"}
    assert checked.summary is not None
    assert checked.summary.largest_safe == 64 * 2**20
    hang = next(f for f in checked.findings if f.check == "deadlock")
    assert "hangs above 67108864 bytes" in hang.message
    assert hang.hint == 'maxBytes="67108864" would keep it safe'
