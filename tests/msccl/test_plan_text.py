"""The check of MSCCL++ plans: hostile text, any value anywhere, other layouts of a file, and locations of messages."""

from __future__ import annotations

import json
import random

import pytest

from collc.msccl.check_plan import check_plan

from .hand_plans import GOOD, all_gather, all_reduce, buff, ops, plan


def check(tmp_path, found):
    path = tmp_path / "plan.json"
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    return check_plan(path)


HOSTILE = {
    "nothing": "",
    "cut": "{",
    "deep": "[" * 200_000,
    "deeper": '{"gpus":' * 100_000 + "0" + "}" * 100_000,
    "a long number": json.dumps(all_gather()).replace('"index": 0', '"index": ' + "9" * 10_000),
    "no number": json.dumps(all_gather()).replace('"index": 0', '"index": NaN'),
    "infinity": json.dumps(all_gather()).replace('"index": 0', '"index": -Infinity'),
    "latin": "\xff",
    "half a character": json.dumps(all_gather()).replace("by hand", "\\ud800"),
    "an escape in the name": json.dumps(all_gather()).replace("by hand", "\\u001b[2J"),
    "another type": "[]",
    "a list of lists": '{"name": "", "collective": "", "protocol": "Simple", "inplace": false, "gpus": [[]]}',
    "no gpus": json.dumps(plan("allreduce", [], inplace=True)),
    "no gpus, and a root": json.dumps(plan("scatter", [])),
    "many chunks": json.dumps(all_gather()).replace('"scratch_chunks": 0', '"scratch_chunks": 4294967295'),
    "a name twice": json.dumps(all_gather()).replace('"index": 0', '"index": 0, "index": 0'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused(tmp_path, name):
    path = tmp_path / "plan.json"
    path.write_bytes(HOSTILE[name].encode("latin-1" if name == "latin" else "utf-8"))
    verdict = check_plan(path)
    assert verdict.checks["contract"] == "failed"
    assert {finding.code for finding in verdict.findings if not finding.warning} <= {"X0401", "X0402", "X0406"}


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_refused_where_null_may_be(tmp_path, constant):
    text = json.dumps({**all_gather(), "max_message_size": None})
    assert check(tmp_path, text).ok
    found = check(tmp_path, text.replace("null", constant)).findings
    assert [(finding.code, finding.message) for finding in found] == [
        ("X0401", f"not JSON: {constant} is not a number")
    ]


VALUES = [None, True, -1, 0, 1, 3, 10**6, 2**40, 0.5, "", "x", "i", [], {}, [0], [[]], [None], ["memory"], [{}]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", GOOD)
def test_any_value_anywhere_has_an_answer(tmp_path, name):
    """Every value of a plan in turn is another one, or gone: no traceback, and what is said to be right is."""
    found = GOOD[name]()

    def spots(value):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            yield value, key
            yield from spots(inner)

    draw = random.Random(name)
    path = tmp_path / "plan.json"
    for holder, key in draw.sample(list(spots(found)), 40):
        before = holder[key]
        for other in [*draw.sample(VALUES, 4), ...]:
            if other is ... and isinstance(holder, list):
                continue
            if other is ...:
                del holder[key]
            else:
                holder[key] = other
            path.write_text(json.dumps(found))
            check_plan(path)
            holder[key] = before


def test_places_have_lines_and_columns(tmp_path):
    found = all_gather()
    ops(found, 1)[4]["dst_buff"][0]["index"] = 7
    path = tmp_path / "plan.json"
    for indent in (None, 1, 4):
        path.write_text(json.dumps(found, indent=indent))
        location = check_plan(path).findings[0].location
        lines = path.read_text().split("\n")
        rest = lines[location.line - 1][location.column - 1 :] + "".join(
            line.strip() for line in lines[location.line :]
        )
        assert (location.gpu, location.tb, location.step) == (1, 0, 4)
        assert rest.startswith('{"name": "put"')
    path.write_text('{"gpus": [\n  1,, 2]}')
    location = check_plan(path).findings[0].location
    assert (location.line, location.column) == (2, 5)


def test_a_wrong_result_is_told_at_the_operation_that_wrote_it(tmp_path):
    found = all_gather()
    ops(found, 2)[3]["src_buff"] = [buff("o", 1)]
    finding = next(finding for finding in check(tmp_path, found).findings if finding.code == "X0411")
    assert finding.message.startswith("output chunk 2 of rank 2 ends with ")
    assert finding.expected == "input chunk 0 of rank 2 (allgather, out of place)"
    assert (finding.location.gpu, finding.location.tb, finding.location.step) == (2, 0, 3)


def test_another_layout_of_the_same_plan(tmp_path):
    """What a file may leave out, say in several pieces or add is no matter."""
    found = all_reduce()
    for one in found["gpus"]:
        peers = one["channels"][0]["connected_to"]
        one["channels"] = [{"channel_type": "memory", "connected_to": [peer], "buff": "i"} for peer in peers]
        one["channels"].append({"channel_type": "port", "connected_to": []})
        block = one["threadblocks"][0]
        block["channels"] = [{"channel_type": "memory", "channel_ids": [k]} for k in range(len(peers))]
        block["remote_buffer_refs"] = [
            {"access_channel_type": "memory", "remote_buffer_ids": [k], "note": None}
            for k in range(len(one["remote_buffers"]))
        ]
        one.pop("semaphores", None)
        for op in block["ops"]:
            op["comment"] = "x"
    found.update(num_threads_per_block=1024, reuse_resources=False, buffer_alignment=16, unknown={"a": [1]})
    verdict = check(tmp_path, json.dumps(found, indent=3, sort_keys=True))
    assert set(verdict.checks.values()) == {"ok"}, verdict.diagnostics
