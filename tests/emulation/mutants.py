"""Random damage to files and plans: what a bug of a writer, or a hand, could do to one."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

from lxml import etree

Json = Any
_ALIKE = (
    ("copy", "put", "re", "res"),
    ("pws", "pwsf", "put"),
    ("cpkt", "upkt", "copy"),
    ("ppkt", "rppkt"),
    ("repkt", "respkt", "recpkt", "recspkt", "re"),
    ("glres", "gstore"),
)
"""Operations of plans that take one another's place."""
KINDS = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re")


def mutated_file(text: bytes | str, draw: random.Random) -> tuple[str, str]:
    """The text of a mutant, and what was done."""
    root = etree.fromstring(text if isinstance(text, bytes) else text.encode())
    changes = [_change_file(root, draw) for _ in range(draw.choice((1, 1, 1, 2)))]
    for tb in root.iter("tb"):
        for number, step in enumerate(tb):
            step.set("s", str(number))
    return etree.tostring(root).decode() + "\n", ", ".join(changes)


def _change_file(root: etree._Element, draw: random.Random) -> str:
    """One change of a random step, threadblock, or of the file."""
    filled = [tb for tb in root.iter("tb") if len(tb)]
    if not filled:
        return "none"
    tb = draw.choice(filled)
    step = draw.choice(list(tb))
    name = draw.choice([*_STEP_CHANGES, *_STEP_CHANGES, *_BLOCK_CHANGES, *_FILE_CHANGES])
    if name in _OF_DEPENDENCIES:
        step = draw.choice([one for one in root.iter("step") if one.get("depid", "-1") != "-1"] or [step])
    if name in _STEP_CHANGES:
        _STEP_CHANGES[name](step, draw)
    elif name in _BLOCK_CHANGES:
        _BLOCK_CHANGES[name](tb, step, draw)
    else:
        _FILE_CHANGES[name](root, draw)
    return name


def _add(step: etree._Element, name: str, by: int) -> None:
    step.set(name, str(int(step.get(name, "0")) + by))


def _end(step: etree._Element, draw: random.Random) -> str:
    """ "src" or "dst", one that the step reads or writes."""
    kind = step.get("type")
    if kind in ("s", "rrs"):
        return "src"
    return "dst" if kind in ("r", "rcs") else draw.choice(("src", "dst"))


def _offset(step: etree._Element, draw: random.Random) -> None:
    _add(step, f"{_end(step, draw)}off", draw.choice((-1, 1)))


def _count(step: etree._Element, draw: random.Random) -> None:
    _add(step, "cnt", draw.choice((-1, 1)))


def _buffer(step: etree._Element, draw: random.Random) -> None:
    name = f"{_end(step, draw)}buf"
    step.set(name, draw.choice([buffer for buffer in "ios" if buffer != step.get(name)]))


def _kind(step: etree._Element, draw: random.Random) -> None:
    step.set("type", draw.choice([kind for kind in KINDS if kind != step.get("type")]))


def _undepend(step: etree._Element, _: random.Random) -> None:
    """Drops a dependency; one with `nop`s before loses one of them, so that it stays well formed."""
    before = step.getprevious()
    if before is not None and before.get("type") == "nop" and step.get("depid") != "-1":
        parent = step.getparent()
        assert parent is not None
        parent.remove(before)
    elif step.get("type") != "nop":
        step.set("depid", "-1")
        step.set("deps", "-1")


def _redepend(step: etree._Element, draw: random.Random) -> None:
    tb = step.getparent()
    gpu = tb.getparent() if tb is not None else None
    if gpu is None:
        return
    others = [other for other in gpu if other is not tb and len(other)]
    if others:
        other = draw.choice(others)
        at = draw.randrange(len(other))
        step.set("depid", other.get("id", "0"))
        step.set("deps", str(at))
        other[at].set("hasdep", "1")


def _earlier(step: etree._Element, draw: random.Random) -> None:
    """A dependency on an earlier step than before."""
    if int(step.get("deps", "-1")) > 0:
        tb = step.getparent()
        gpu = tb.getparent() if tb is not None else None
        at = draw.randrange(int(step.get("deps", "1")))
        step.set("deps", str(at))
        for other in gpu if gpu is not None else ():
            if other.get("id") == step.get("depid") and at < len(other):
                other[at].set("hasdep", "1")


def _tell(step: etree._Element, _: random.Random) -> None:
    step.set("hasdep", "0" if step.get("hasdep") == "1" else "1")


_STEP_CHANGES: dict[str, Callable[[etree._Element, random.Random], None]] = {
    "offset": _offset,
    "count": _count,
    "buffer": _buffer,
    "kind": _kind,
    "dependency dropped": _undepend,
    "dependency on another": _redepend,
    "dependency on an earlier step": _earlier,
    "hasdep": _tell,
}

_OF_DEPENDENCIES = ("dependency dropped", "dependency on another", "dependency on an earlier step")
"""Changes of a step that has one; without any in the file, only the second changes something."""


def _swap(tb: etree._Element, step: etree._Element, draw: random.Random) -> None:
    rows = list(tb)
    a, b = rows.index(step), draw.randrange(len(rows))
    rows[a], rows[b] = rows[b], rows[a]
    tb[:] = rows


def _drop(tb: etree._Element, step: etree._Element, _: random.Random) -> None:
    tb.remove(step)


def _double(tb: etree._Element, step: etree._Element, _: random.Random) -> None:
    step.addnext(copy.deepcopy(step))


def _move(tb: etree._Element, step: etree._Element, draw: random.Random) -> None:
    """To another threadblock of the gpu, or to one of its own."""
    gpu = tb.getparent()
    if gpu is None:
        return
    others = [other for other in gpu if other is not tb]
    if step.get("type") in ("cpy", "re") and draw.random() < 0.5:
        others = [etree.SubElement(gpu, "tb", {"id": str(len(gpu)), "send": "-1", "recv": "-1", "chan": "0"})]
    if others:
        other = draw.choice(others)
        other.insert(draw.randrange(len(other) + 1), step)


def _channel(tb: etree._Element, _: etree._Element, draw: random.Random) -> None:
    tb.set("chan", str(draw.randrange(4)))


def _peers(tb: etree._Element, _: etree._Element, draw: random.Random) -> None:
    gpu = tb.getparent()
    other = draw.choice(list(gpu)) if gpu is not None else tb
    name = draw.choice(("send", "recv"))
    mine, theirs = tb.get(name, "-1"), other.get(name, "-1")
    tb.set(name, theirs)
    other.set(name, mine)


_BLOCK_CHANGES: dict[str, Callable[[etree._Element, etree._Element, random.Random], None]] = {
    "steps swapped": _swap,
    "step dropped": _drop,
    "step doubled": _double,
    "step moved": _move,
    "channel": _channel,
    "peers swapped": _peers,
}


def _protocol(root: etree._Element, draw: random.Random) -> None:
    root.set("proto", draw.choice(("Simple", "LL", "LL128")))


def _placement(root: etree._Element, _: random.Random) -> None:
    root.set("inplace", "1")
    root.set("outofplace", "1")


def _sizes(root: etree._Element, _: random.Random) -> None:
    root.set("minBytes", "0")
    root.set("maxBytes", str(1 << 40))


_FILE_CHANGES: dict[str, Callable[[etree._Element, random.Random], None]] = {
    "protocol": _protocol,
    "both placements": _placement,
    "all sizes": _sizes,
}


def mutated_plan(text: bytes | str, draw: random.Random) -> tuple[str, str]:
    """The text of a mutant, and what was done."""
    plan = json.loads(text)
    changes = [_change_plan(plan, draw) for _ in range(draw.choice((1, 1, 1, 2)))]
    return json.dumps(plan), ", ".join(changes)


def _change_plan(plan: Json, draw: random.Random) -> str:
    """One change of a random operation, or of what the plan says of all of them."""
    if draw.random() < 0.1:
        return draw.choice(_PLAN_CHANGES)(plan, draw)
    gpu = draw.choice(plan["gpus"])
    filled = [block for block in gpu["threadblocks"] if block["ops"]]
    if not filled:
        return "none"
    ops = draw.choice(filled)["ops"]
    at = draw.randrange(len(ops))
    op = ops[at]
    name = draw.choice([*_OP_CHANGES, *_OP_CHANGES, "operations swapped", "dropped", "doubled", "moved"])
    if name in _OP_CHANGES:
        _OP_CHANGES[name](op, draw)
    elif name == "dropped":
        ops.pop(at)
    elif name == "doubled":
        ops.insert(at, copy.deepcopy(op))
    elif name == "moved":
        draw.choice(filled)["ops"].insert(0, ops.pop(at))
    else:
        other = draw.randrange(len(ops))
        ops[at], ops[other] = ops[other], ops[at]
    return f"{op['name']}: {name}"


def _double_scratch(plan: Json, _: random.Random) -> str:
    doubled = not plan.get("use_double_scratch_buffer", False)
    plan["use_double_scratch_buffer"] = doubled
    return f"double scratch {doubled}"


def _no_credits(plan: Json, _: random.Random) -> str:
    """Nobody says that it has begun: the first signal and the first wait of every threadblock are missing."""
    for block in (block for gpu in plan["gpus"] for block in gpu["threadblocks"]):
        for name in ("signal", "wait"):
            first = next((at for at, op in enumerate(block["ops"]) if op["name"] == name), None)
            if first is not None:
                del block["ops"][first]
    return "no credits"


def _switch_group(plan: Json, draw: random.Random) -> str:
    """Another group of ranks, buffer or order of the switch channels of a gpu."""
    gpu = draw.choice(plan["gpus"])
    channels = [one for one in gpu["channels"] if one["channel_type"] == "switch"]
    if not channels:
        return "none"
    one = draw.choice(channels)
    group, how = one["rank_groups"][0], draw.randrange(5)
    if how == 0:
        group["ranks"].pop()
    elif how == 1:
        group["ranks"].reverse()
    elif how == 2:
        group["size"] = 9
    elif how == 3:
        one["buffer_type"] = draw.choice("ios")
    else:
        gpu["channels"] = [row for row in gpu["channels"] if row not in channels] + channels[::-1]
    return "switch group"


def _shared_channel(plan: Json, draw: random.Random) -> str:
    """A threadblock uses a channel of another one, or of itself twice."""
    blocks = [block for block in draw.choice(plan["gpus"])["threadblocks"] if block["channels"]]
    if blocks:
        mine, other = draw.choice(blocks)["channels"][0], draw.choice(blocks)["channels"][0]
        mine["channel_ids"][0] = other["channel_ids"][-1]
    return "shared channel"


_PLAN_CHANGES = (_double_scratch, _no_credits, _switch_group, _switch_group, _shared_channel)


def _entry(op: Json, draw: random.Random) -> Json | None:
    entries = [*op.get("src_buff", ()), *op.get("dst_buff", ())]
    return draw.choice(entries) if entries else None


def _index(op: Json, draw: random.Random) -> None:
    entry = _entry(op, draw)
    if entry is not None:
        entry["index"] += draw.choice((-1, 1))


def _size(op: Json, draw: random.Random) -> None:
    for entry in (*op.get("src_buff", ()), *op.get("dst_buff", ())):
        entry["size"] += 1


def _place(op: Json, draw: random.Random) -> None:
    entry = _entry(op, draw)
    if entry is not None and "type" in entry:
        entry["type"] = draw.choice("ios")
    for name in ("buffer_id", "switch_channel_id"):
        if entry is not None and name in entry:
            entry[name] = max(0, entry[name] + draw.choice((-1, 1)))


def _lists(op: Json, draw: random.Random) -> None:
    """Another channel or semaphore, one less, or another order."""
    rows = op.get("channel_ids") or op.get("semaphore_ids")
    if not rows:
        return
    at = draw.randrange(len(rows))
    how = draw.randrange(3)
    if how == 0:
        rows[at] = max(0, rows[at] + draw.choice((-1, 1)))
    elif how == 1 and op["name"] in ("signal", "wait", "rlxsignal", "rlxwait", "sem_acquire", "sem_release"):
        rows.pop(at)
    else:
        draw.shuffle(rows)


def _relax(op: Json, _: random.Random) -> None:
    if op["name"] in ("signal", "wait"):
        op["name"] = "rlx" + op["name"]


def _channel_type(op: Json, draw: random.Random) -> None:
    if "channel_type" in op:
        op["channel_type"] = draw.choice(("memory", "port"))


def _rename(op: Json, draw: random.Random) -> None:
    for names in _ALIKE:
        if op["name"] in names:
            op["name"] = draw.choice(names)
            return


_OP_CHANGES: dict[str, Callable[[Json, random.Random], None]] = {
    "index": _index,
    "size": _size,
    "buffer": _place,
    "list": _lists,
    "relaxed": _relax,
    "type of channel": _channel_type,
    "another operation": _rename,
}
