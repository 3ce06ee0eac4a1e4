"""MSCCL XML files as the runtimes load them: elements, numbers of base 0, `nop`s and `re`s folded into other steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from lxml import etree

from tests.emulation.values import Refused

FUSED = 16
"""Most `re` that one step holds."""

RECEIVES = ("r", "rcs", "rrs", "rrc", "rrcs")
SENDS = ("s", "rcs", "rrs", "rrcs")
READS = ("s", "rrs", "rrc", "rrcs", "cpy", "re")
WRITES = ("r", "rcs", "rrc", "rrcs", "cpy", "re")
KINDS = {*RECEIVES, *SENDS, *READS}


@dataclass
class Step:
    """What a threadblock does at once. sources: several for `re`. number: its position, that of its last part."""

    kind: str
    sources: list[tuple[str, int]]
    target: tuple[str, int]
    count: int
    needs: list[tuple[int, int]]
    tells: bool
    number: int


@dataclass
class Block:
    gpu: int
    send: int
    receive: int
    channel: int
    steps: list[Step] = field(default_factory=list)


@dataclass
class File:
    protocol: str
    coll: str
    loop_chunks: int
    sizes: tuple[int, int | None]
    placements: list[bool]
    chunks: list[tuple[int, int, int]]
    blocks: list[list[Block]]


def load(text: bytes | str) -> File:
    """Raises Refused if the file cannot be run at all."""
    try:
        root = etree.fromstring(text if isinstance(text, bytes) else text.encode())
    except etree.XMLSyntaxError as error:
        raise Refused(str(error)) from error
    gpus = [one for one in root if one.tag == "gpu"]
    if [_number(gpu, "id") for gpu in gpus] != [*range(_number(root, "ngpus"))]:
        raise Refused("gpus are missing or not in order")
    largest = _number(root, "maxBytes")
    placements = [flag for flag, name in ((False, "outofplace"), (True, "inplace")) if _number(root, name)]
    return File(
        root.get("proto", ""),
        root.get("coll", "").replace("_", ""),
        _number(root, "nchunksperloop"),
        (_number(root, "minBytes"), largest or None),
        placements,
        [(_number(gpu, "i_chunks"), _number(gpu, "o_chunks"), _number(gpu, "s_chunks")) for gpu in gpus],
        [_blocks(gpu, rank) for rank, gpu in enumerate(gpus)],
    )


def _number(element: etree._Element, name: str) -> int:
    text = element.get(name)
    if text is None:
        raise Refused(f"{element.tag} has no {name}")
    try:
        digits = text.lstrip("-")
        octal = digits.startswith("0") and digits.isdigit() and len(digits) > 1
        return int(text, 8 if octal else 0)
    except ValueError as error:
        raise Refused(f"{name}={text} is no number") from error


def _blocks(gpu: etree._Element, rank: int) -> list[Block]:
    found = [one for one in gpu if one.tag == "tb"]
    if sorted(_number(tb, "id") for tb in found) != [*range(len(found))]:
        raise Refused(f"gpu {rank}: threadblocks are missing")
    found.sort(key=lambda tb: _number(tb, "id"))
    return [
        Block(rank, _number(tb, "send"), _number(tb, "recv"), _number(tb, "chan"), _steps(tb, rank)) for tb in found
    ]


def _steps(tb: etree._Element, rank: int) -> list[Step]:
    """The steps as they are executed; section 5 says which `re` become one."""
    steps: list[Step] = []
    needs: list[tuple[int, int]] = []
    open_re = False
    for number, row in enumerate(one for one in tb if one.tag == "step"):
        kind = row.get("type", "")
        need = (_number(row, "depid"), _number(row, "deps"))
        if need[0] >= 0:
            needs.append(need)
        if kind == "nop":
            continue
        if kind not in KINDS:
            raise Refused(f"gpu {rank}: a step of type {kind}")
        source, target = (
            (row.get("srcbuf", ""), _number(row, "srcoff")),
            (row.get("dstbuf", ""), _number(row, "dstoff")),
        )
        count, tells = _number(row, "cnt"), bool(_number(row, "hasdep"))
        last = steps[-1] if steps else None
        if open_re and last and kind == "re" and need[0] < 0 and last.target == target and _same(last, source):
            last.sources.append(source)
            last.count, last.tells, last.number = count, tells, number
        else:
            steps.append(Step(kind, [source], target, count, needs, tells, number))
            needs = []
        open_re = kind == "re" and not tells and len(steps[-1].sources) < FUSED
    if needs:
        raise Refused(f"gpu {rank}: a threadblock ends with a nop")
    return steps


def _same(step: Step, source: tuple[str, int]) -> bool:
    return step.sources[0][0] == source[0]
