"""Every way of breaking a good MSCCL file is caught by the right check; what stays right is right in the emulation."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

import collc.msccl.check
from collc.msccl.check import check_file
from tests.emulation.judge import judge_file
from tests.emulation.mutants import mutated_file

from .programs import (
    GOOD,
    Block,
    all_to_all,
    chain_broadcast,
    direct_all_reduce,
    exchange,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    star_all_gather_by_scratch,
    write,
)

ROOTS = {"broadcast": 1, "reduce": 2, "gather": 1, "scatter": 1}


def _text(make, change):
    file = make()
    changed = change(file)
    return changed if isinstance(changed, str) else file.text()


def _step(file, gpu, tb, step, **values):
    file.gpus[gpu].tbs[tb].steps[step].update(values)


def _renumber(tb):
    for position, step in enumerate(tb.steps):
        step["s"] = position


def _drop(file, gpu, tb, step):
    tb = file.gpus[gpu].tbs[tb]
    del tb.steps[step]
    _renumber(tb)


def _swap(file, gpu, tb, a, b):
    tb = file.gpus[gpu].tbs[tb]
    tb.steps[a], tb.steps[b] = tb.steps[b], tb.steps[a]
    _renumber(tb)


def _twice(file, gpu, tb, step):
    tb = file.gpus[gpu].tbs[tb]
    tb.steps.insert(step, dict(tb.steps[step]))
    _renumber(tb)


def _lonely_nop(file, at):
    tb = file.gpus[0].tbs[0]
    nop = {**tb.steps[0], "type": "nop"}
    tb.steps.insert(at if at >= 0 else len(tb.steps), nop)
    _renumber(tb)


def _tb(file, gpu, tb, **values):
    for name, value in values.items():
        setattr(file.gpus[gpu].tbs[tb], name, value)


def _more_peers(file):
    file.gpus[0].tbs += [Block(1, -1, 0) for _ in range(33)]


def _public_tool(file):
    """The sender's slot as src of every receiving reduction, as a public tool writes it."""
    for gpu in file.gpus:
        for step in gpu.tbs[0].steps:
            if step["type"] in ("rrs", "rrc", "rrcs"):
                step["dstbuf"], step["dstoff"] = step["srcbuf"], step["srcoff"]
                step["srcoff"] = (step["srcoff"] + 1) % 4


def _remove(attribute, element):
    return lambda file: re.sub(rf'(<{element} [^>]*?){attribute}="[^"]*" ?', r"\1", file.text(), count=1)


def _replace(old, new):
    def change(file):
        assert old in file.text()
        return file.text().replace(old, new, 1)

    return change


# name: (program, change, the check that must fail, the code that names it)
KINDS = {
    "source offset": (ring_all_gather, lambda f: _step(f, 1, 0, 1, dstoff=3), "result", "X0131"),
    "destination of the copy": (ring_all_gather, lambda f: _step(f, 2, 1, 0, dstoff=1), "result", "X0131"),
    "wrong local operand": (ring_all_reduce, lambda f: _step(f, 1, 0, 1, srcoff=2), "result", "X0131"),
    "local/remote mix-up": (ring_all_reduce, _public_tool, "result", "X0132"),
    "sum written over": (ring_all_reduce, lambda f: _step(f, 0, 0, 3, dstoff=2), "result", "X0131"),
    "copy instead of reduce": (ring_reduce_scatter, lambda f: _step(f, 0, 0, 3, type="r"), "result", "X0131"),
    "reduce twice": (direct_all_reduce, lambda f: _twice(f, 0, 2, 1), "result", "X0131"),
    "reduction dropped": (direct_all_reduce, lambda f: _step(f, 0, 2, 1, type="cpy", dstbuf="s"), "result", "X0131"),
    "copy dropped": (all_to_all, lambda f: f.gpus[1].tbs.pop(), "result", "X0131"),
    "send dropped": (ring_all_gather, lambda f: _drop(f, 0, 0, 0), "result", "X0130"),
    "receive dropped": (ring_all_gather, lambda f: _drop(f, 0, 0, 3), "result", "X0130"),
    "send doubled": (ring_all_gather, lambda f: _twice(f, 0, 0, 0), "result", "X0130"),
    "count on one side": (lambda: all_to_all(3, 2), lambda f: _step(f, 0, 0, 0, cnt=1), "result", "X0130"),
    "steps swapped": (ring_all_reduce, lambda f: _swap(f, 2, 0, 1, 2), "result", "X0131"),
    "receive before send all round": (
        ring_all_gather,
        lambda f: [_swap(f, gpu, 0, 0, 3) for gpu in range(4)],
        "deadlock",
        "X0140",
    ),
    "wait for oneself": (ring_all_gather, lambda f: _step(f, 0, 0, 1, depid=0, deps=1, hasdep=1), "deadlock", "X0140"),
    "cycle of dependencies": (
        direct_all_reduce,
        lambda f: (_step(f, 0, 0, 1, depid=2, deps=2), _step(f, 0, 2, 1, depid=0, deps=1)),
        "deadlock",
        "X0140",
    ),
    "size-dependent deadlock": (exchange, lambda f: None, "deadlock", "X0140"),
    "byte range too wide": (exchange, lambda f: setattr(f, "max_bytes", 8 * 2**20 + 16), "deadlock", "X0140"),
    "dependency dropped": (direct_all_reduce, lambda f: _step(f, 1, 2, 1, depid=-1, deps=-1), "race", "X0150"),
    "early (dependency on the step before)": (
        direct_all_reduce,
        lambda f: (_step(f, 0, 2, 1, hasdep=1), _step(f, 0, 0, 2, deps=1)),
        "race",
        "X0150",
    ),
    "scratch reused without a dependency": (
        star_all_gather_by_scratch,
        lambda f: _step(f, 0, 2, 0, depid=-1, deps=-1),
        "race",
        "X0150",
    ),
    "read before it is there": (
        star_all_gather_by_scratch,
        lambda f: _step(f, 0, 3, 0, depid=-1, deps=-1),
        "race",
        "X0150",
    ),
    "nop's dependency gone": (star_all_gather_by_scratch, lambda f: _drop(f, 0, 1, 1), "race", "X0150"),
    "in place claimed, but input is lost": (
        all_to_all,
        lambda f: setattr(f, "inplace", 1),
        "race",
        "X0150",
    ),
    "out of place claimed without the copy": (
        ring_all_gather,
        lambda f: [g.tbs.pop() for g in f.gpus],
        "result",
        "X0131",
    ),
    "overlap within a step": (
        lambda: chain_broadcast(2, 1, 4),
        lambda f: f.gpus[1].tbs[1].add("cpy", ("o", 0), ("o", 1), 3),
        "race",
        "X0151",
    ),
    "hasdep removed": (direct_all_reduce, lambda f: _step(f, 0, 0, 1, hasdep=0), "contract", "X0115"),
    "depends on a nop": (star_all_gather_by_scratch, lambda f: _step(f, 0, 3, 1, depid=1, deps=1), "contract", "X0115"),
    "no such threadblock": (direct_all_reduce, lambda f: _step(f, 0, 0, 2, depid=9), "contract", "X0115"),
    "no such step": (direct_all_reduce, lambda f: _step(f, 0, 0, 2, deps=9), "contract", "X0115"),
    "nop without dependency": (ring_all_gather, lambda f: _lonely_nop(f, 1), "contract", "X0118"),
    "nop at the end": (ring_all_gather, lambda f: _lonely_nop(f, -1), "contract", "X0118"),
    "step after a nop without dependency": (
        star_all_gather_by_scratch,
        lambda f: _step(f, 0, 1, 2, depid=-1, deps=-1),
        "contract",
        "X0118",
    ),
    "position": (ring_all_gather, lambda f: _step(f, 0, 0, 2, s=1), "contract", "X0113"),
    "count 0": (all_to_all, lambda f: _step(f, 0, 0, 0, cnt=0), "contract", "X0113"),
    "count 72": (lambda: all_to_all(3, 72, 2**10), lambda f: None, "contract", "X0113"),
    "hasdep 2": (ring_all_gather, lambda f: _step(f, 0, 0, 0, hasdep=2), "contract", "X0113"),
    "send without a peer": (ring_all_gather, lambda f: _step(f, 0, 1, 0, type="s"), "contract", "X0113"),
    "too many steps": (
        ring_all_gather,
        lambda f: [f.gpus[0].tbs[1].add("cpy", ("i", 0), ("o", 0)) for _ in range(64)],
        "contract",
        "X0113",
    ),
    "offset outside": (ring_all_gather, lambda f: _step(f, 0, 0, 1, dstoff=4), "contract", "X0114"),
    "negative offset": (ring_all_gather, lambda f: _step(f, 0, 0, 0, srcoff=-1), "contract", "X0114"),
    "end outside": (all_to_all, lambda f: _step(f, 0, 3, 0, srcoff=3, cnt=2), "contract", "X0114"),
    "offset of 17 bits": (ring_all_gather, lambda f: _step(f, 0, 0, 0, dstoff=40000), "contract", "X0114"),
    "no scratch declared": (
        star_all_gather_by_scratch,
        lambda f: setattr(f.gpus[0], "chunks", (1, 3, 0)),
        "contract",
        "X0114",
    ),
    "peer itself": (ring_all_gather, lambda f: _tb(f, 0, 0, send=0), "contract", "X0111"),
    "peer outside": (ring_all_gather, lambda f: _tb(f, 0, 0, send=4), "contract", "X0111"),
    "channel outside": (ring_all_gather, lambda f: _tb(f, 0, 1, chan=1), "contract", "X0111"),
    "negative channel": (ring_all_gather, lambda f: _tb(f, 0, 1, chan=-1), "contract", "X0111"),
    "too many peers on a channel": (ring_all_gather, _more_peers, "contract", "X0111"),
    "wrong peer": (all_to_all, lambda f: _tb(f, 0, 0, send=2), "contract", "X0112"),
    "two on one connection": (all_to_all, lambda f: _tb(f, 0, 1, recv=3, send=2), "contract", "X0112"),
    "other channel at one end": (
        ring_all_gather,
        lambda f: (setattr(f, "nchannels", 2), _tb(f, 0, 0, chan=1)),
        "contract",
        "X0112",
    ),
    "i_chunks": (ring_all_gather, _replace('i_chunks="1"', 'i_chunks="2"'), "contract", "X0116"),
    "nchunksperloop": (all_to_all, lambda f: setattr(f, "nchunksperloop", 5), "contract", "X0110"),
    "gpu missing": (all_to_all, lambda f: f.text().replace('ngpus="4"', 'ngpus="5"'), "contract", "X0107"),
    "gpu twice": (all_to_all, _replace('<gpu id="1"', '<gpu id="0"'), "contract", "X0107"),
    "threadblock ids": (all_to_all, _replace('<tb id="1"', '<tb id="7"'), "contract", "X0107"),
    "unknown coll": (all_to_all, lambda f: setattr(f, "coll", "all_to_all"), "contract", "X0110"),
    "no placement": (all_to_all, lambda f: setattr(f, "outofplace", 0), "contract", "X0110"),
    "empty byte range": (
        all_to_all,
        lambda f: (setattr(f, "min_bytes", 9), setattr(f, "max_bytes", 8)),
        "contract",
        "X0110",
    ),
    "33 channels": (all_to_all, lambda f: setattr(f, "nchannels", 33), "contract", "X0110"),
    "unknown protocol": (all_to_all, lambda f: setattr(f, "proto", "LL64"), "contract", "X0106"),
    "unknown operation": (all_to_all, lambda f: _step(f, 0, 0, 0, type="sr"), "contract", "X0106"),
    "unknown buffer": (all_to_all, lambda f: _step(f, 0, 0, 0, srcbuf="x"), "contract", "X0106"),
    "number": (all_to_all, lambda f: _step(f, 0, 0, 0, srcoff="1a"), "contract", "X0106"),
    "octal that is none": (all_to_all, lambda f: _step(f, 0, 0, 0, srcoff="08"), "contract", "X0106"),
    "number too large": (all_to_all, lambda f: _step(f, 0, 0, 0, srcoff=2**31), "contract", "X0106"),
    "XML declaration": (all_to_all, lambda f: '<?xml version="1.0"?>\n' + f.text(), "contract", "X0101"),
    "DOCTYPE": (all_to_all, lambda f: "<!DOCTYPE algo>\n" + f.text(), "contract", "X0101"),
    "entities": (
        all_to_all,
        lambda f: '<!DOCTYPE a [<!ENTITY x SYSTEM "/etc/passwd">]>' + f.text(),
        "contract",
        "X0101",
    ),
    "byte order mark": (all_to_all, lambda f: "\ufeff" + f.text(), "contract", "X0101"),
    "tab": (all_to_all, _replace("      <step", "\t<step"), "contract", "X0102"),
    "text": (all_to_all, _replace("</tb>", "x</tb>"), "contract", "X0102"),
    "tab in a tag": (all_to_all, _replace(' type="s"', '\ttype="s"'), "contract", "X0103"),
    "two blanks": (all_to_all, _replace(' type="s"', '  type="s"'), "contract", "X0103"),
    "line end in a tag": (all_to_all, _replace(' type="s"', '\n type="s"'), "contract", "X0103"),
    "single quotes": (all_to_all, _replace('type="s"', "type='s'"), "contract", "X0103"),
    "no quotes": (all_to_all, _replace('type="s"', "type=s"), "contract", "X0103"),
    "entity in a value": (all_to_all, lambda f: setattr(f, "name", "a&amp;b"), "contract", "X0103"),
    "attribute twice": (all_to_all, _replace('type="s"', 'type="s" type="s"'), "contract", "X0103"),
    "17 attributes": (
        all_to_all,
        _replace('type="s"', 'type="s" ' + " ".join(f'a{k}="0"' for k in range(7))),
        "contract",
        "X0103",
    ),
    "a long value": (all_to_all, lambda f: setattr(f, "name", "x" * 255), "contract", "X0103"),
    "child of a step": (all_to_all, _replace('hasdep="0"/>', 'hasdep="0"><x/></step>'), "contract", "X0104"),
    "end missing": (all_to_all, lambda f: f.text().replace("</algo>", ""), "contract", "X0104"),
    "wrong closing tag": (all_to_all, _replace("</tb>", "</gpu>"), "contract", "X0104"),
    "second algo": (all_to_all, lambda f: f.text() + f.text(), "contract", "X0104"),
    "cut off": (all_to_all, lambda f: f.text()[:700], "contract", "X0103"),
    "cut off between tags": (all_to_all, lambda f: f.text()[: f.text().index("</gpu>")], "contract", "X0104"),
    **{
        f"without {attribute} of {element}": (all_to_all, _remove(attribute, element), "contract", "X0105")
        for element, attributes in {
            "algo": "nchunksperloop nchannels ngpus proto coll minBytes maxBytes inplace outofplace",
            "gpu": "id i_chunks o_chunks s_chunks",
            "tb": "id send recv chan",
            "step": "s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep",
        }.items()
        for attribute in attributes.split()
    },
}


@pytest.mark.parametrize("name", GOOD)
def test_good_files_pass(tmp_path, name):
    verdict = check_file(write(tmp_path / "good.xml", GOOD[name]()))
    assert set(verdict.checks.values()) == {"ok"}, verdict.diagnostics


@pytest.mark.parametrize("name", KINDS)
def test_broken_files_are_named(tmp_path, name):
    make, change, check, code = KINDS[name]
    verdict = check_file(write(tmp_path / "bad.xml", _text(make, change)))
    assert verdict.checks[check] == "failed", verdict.diagnostics
    errors = [finding for finding in verdict.findings if not finding.warning and finding.check == check]
    assert code in {finding.code for finding in errors}
    assert not verdict.ok
    told = [d for d in verdict.diagnostics if not d.warning and "more of this kind" not in d.message]
    assert all(d.span is not None for d in told)


# Random mutations: what they do is judged by the emulation.


def _campaign(tmp_path, seeds) -> Counter:
    """(what the emulation says, whether the check passes it) -> how often. Asserts that they agree."""
    tally: Counter = Counter()
    for seed in seeds:
        draw = random.Random(seed)
        name = draw.choice(list(GOOD))
        text, change = mutated_file(GOOD[name]().text(), draw)
        root = ROOTS.get(name)
        (tmp_path / "mutant.xml").write_text(text)
        verdict = check_file(tmp_path / "mutant.xml", root=root)
        happens = judge_file(text, root=-1 if root is None else root, runs=4, seed=seed).kind
        tally[happens, verdict.ok] += 1
        told = [d.message for d in verdict.diagnostics if not d.warning]
        if verdict.ok:
            assert happens == "right", (seed, name, change)
        elif happens == "right" and verdict.checks["contract"] == "ok":
            assert verdict.checks["race"] == "failed", (seed, name, change, told)
        if verdict.checks["contract"] == "ok" and verdict.checks["deadlock"] == "failed":
            assert happens != "right", (seed, name, change, told)
    return tally


ELSEWHERE = {
    "X0100": "test_check.py",
    "X0108": "test_run_files.py",
    "X0117": "test_check.py",
    "X0119": "test_check.py",
    "X0120": "test_check.py",
    "X0121": "test_check_runtimes.py",
    "X0203": "test_check.py",
}
"""Codes that no kind of damage above raises, and the test of each: a file that is not there, warnings, options."""


def test_every_code_has_damage_that_raises_it():
    package = Path(collc.msccl.check.__file__).parent
    codes = {code for path in package.glob("*.py") for code in re.findall(r'"(X\d{4})"', path.read_text())}
    assert codes == {code for *_, code in KINDS.values()} | set(ELSEWHERE)
    for code, file in ELSEWHERE.items():
        assert code in (Path(__file__).parent / file).read_text()


def test_random_mutations(tmp_path):
    tally = _campaign(tmp_path, range(500))
    assert tally["wrong", False] > 50
    assert tally["hangs", False] > 10
    assert tally["race", False] > 10
    assert tally["right", True] > 50


@pytest.mark.slow
def test_many_random_mutations(tmp_path):
    _campaign(tmp_path, range(10_000, 11_500))
