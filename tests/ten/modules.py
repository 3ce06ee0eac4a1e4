"""Random TEN modules for Hypothesis, and their comparison."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from collc.ten.demand import ChunkFamily, ChunkTable, Demand, HolderSets, Op, Run
from collc.ten.module import Bound, Module, Phase
from collc.ten.network import Axis, DeviceFamily, LinkKind, Network
from collc.ten.schedule import LinkModel, RowSchedule, StepSchedule, Transfers
from tests.ten.standard_runs import KINDS, standard_run

NAMES = st.one_of(
    st.sampled_from(["npu", "gpu", "x", "node.gpu", "send", "at", "über", "", "a b", '"', "#", "s over t", "a -> b"]),
    st.text(max_size=6),
)
TEXTS = st.text(max_size=12)
MODELS = st.sampled_from(list(LinkModel))


def ints(draw, count: int, low: int, high: int) -> list[int]:
    if not count:
        return []
    return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))


@st.composite
def networks(draw) -> Network:
    npus, switches = draw(st.integers(0, 6)), draw(st.integers(0, 2))
    count = npus + switches
    families = []
    if npus and draw(st.booleans()):
        shape = draw(st.sampled_from([(npus,), (npus, 1), (1, npus)]))
        strides = draw(st.sampled_from([(1,), (2,)])) if len(shape) == 1 else (npus, 1) if shape[0] == 1 else (1, npus)
        families.append(DeviceFamily(draw(NAMES), shape, 0, strides))
    if switches and draw(st.booleans()):
        families.append(DeviceFamily(draw(NAMES), (), npus, ()))
    kinds = draw(
        st.lists(
            st.builds(
                LinkKind,
                st.one_of(st.none(), st.integers(0, 10**13)),
                st.one_of(st.none(), st.builds(Fraction, st.integers(1, 10**12), st.integers(1, 10**4))),
            ),
            min_size=1,
            max_size=3,
        )
    )
    axes = draw(st.lists(st.builds(Axis, NAMES, st.integers(1, 9)), max_size=2))
    links = draw(st.integers(0, 8)) if count else 0
    flags = st.lists(st.booleans(), min_size=switches, max_size=switches)
    return Network(
        name=draw(TEXTS),
        npu_count=npus,
        families=tuple(families),
        present=np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), np.bool_),
        buffers=np.array(ints(draw, switches, -1, 9), np.int64),
        multicast=np.array(draw(flags), np.bool_),
        reduces=np.array(draw(flags), np.bool_),
        source=np.array(ints(draw, links, 0, count - 1), np.int32),
        target=np.array(ints(draw, links, 0, count - 1), np.int32),
        kind=np.array(ints(draw, links, 0, len(kinds) - 1), np.int32),
        kinds=tuple(kinds),
        axes=tuple(axes),
        link_axis=np.array(ints(draw, links, -1, len(axes) - 1) if axes else [], np.int8),
        unwound=not switches and draw(st.booleans()),
    )


@st.composite
def standard_runs(draw, npus: list[int]) -> Run:
    group = draw(st.permutations(npus))[: draw(st.integers(1, len(npus)))]
    kind, op = draw(st.sampled_from(KINDS)), draw(st.sampled_from([Op.SUM, Op.MAX, Op.MIN, Op.PROD]))
    root, chunks = draw(st.integers(0, len(group) - 1)), draw(st.integers(1, 2))
    return standard_run(kind, list(group), chunks, root, op, draw(st.integers(0, 2**50)))


@st.composite
def runs(draw, npus: list[int]) -> Run:
    if npus and draw(st.integers(0, 3)) == 0:
        return draw(standard_runs(npus))
    holders = st.lists(st.sampled_from(npus), max_size=len(npus)) if npus else st.just([])
    sets = HolderSets.of(draw(st.lists(holders, min_size=1, max_size=4)))
    families = draw(st.lists(st.builds(ChunkFamily, NAMES, st.integers(0, 3)), max_size=3))
    count = draw(st.integers(0, 6)) if families and npus else 0
    width = max((f.rank for f in families), default=0)
    family = ints(draw, count, 0, len(families) - 1)
    index = [[draw(st.integers(0, 3)) if k < families[f].rank else 0 for k in range(width)] for f in family]
    table = ChunkTable(
        size=np.array(ints(draw, count, 0, 2**62), np.int64),
        pre=np.array(ints(draw, count, 0, len(sets) - 1), np.int32),
        post=np.array(ints(draw, count, 0, len(sets) - 1), np.int32),
        op=np.array(ints(draw, count, 0, 4), np.int8),
        family=np.array(family, np.int32),
        index=np.array(index, np.int32).reshape(count, width),
        families=tuple(families),
        sets=sets,
    )
    group = draw(st.permutations(npus))[: draw(st.integers(min(1, count), len(npus)))]
    return Run(draw(NAMES), np.array(group, np.int32), table)


@st.composite
def schedules(draw, chunks: int, links: int, model: LinkModel) -> RowSchedule | StepSchedule:
    if draw(st.booleans()):
        count = draw(st.integers(0, 8))
        rows = Transfers.of(
            np.array(ints(draw, count, -1, chunks + 1), np.int32),
            np.array(ints(draw, count, -1, links + 1), np.int32),
            np.array(ints(draw, count, -(10**7), 10**18), np.int64),
            np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), np.bool_),
        )
        return RowSchedule(model, rows)
    steps = draw(st.integers(0, 4))
    dtype = draw(st.sampled_from([np.uint16, np.uint32]))
    cells = ints(draw, steps * links, -1, chunks + 2)
    grid = np.array(cells, np.int64).reshape(steps, links).astype(dtype)
    last = np.flatnonzero((grid != np.iinfo(dtype).max).any(axis=1)).max(initial=-1)
    return StepSchedule(model, grid[: last + 1], draw(st.integers(1, 10**12)), draw(st.integers(0, int(last) + 1)))


@st.composite
def modules(draw, depth: int = 1) -> Module:
    net = draw(networks())
    demand = Demand(tuple(draw(st.lists(runs(net.npus.tolist()), max_size=3))))
    chunks = int(demand.first_chunk[-1])
    phases = ()
    if depth and draw(st.integers(0, 3)) == 0:
        phases = (Phase(draw(modules(depth - 1)), draw(st.booleans()), draw(st.integers(0, 10**9))),)
    model = draw(MODELS)
    return Module(
        name=draw(TEXTS),
        network=net,
        demand=demand,
        model=model,
        schedule=draw(st.one_of(st.none(), schedules(chunks, net.link_count, model))),
        algorithm=draw(TEXTS),
        seed=draw(st.one_of(st.none(), st.integers(-5, 2**63))),
        bound=draw(st.one_of(st.none(), st.builds(Bound, st.integers(0, 10**18), TEXTS))),
        notes=tuple(draw(st.lists(TEXTS, max_size=2))),
        planned=draw(st.one_of(st.none(), st.frozensets(st.integers(0, 3)))),
        phases=phases,
    )


def content(thing: object) -> object:
    """A module as nested plain values, which can be compared; arrays with their types."""
    if isinstance(thing, np.ndarray):
        return (str(thing.dtype), thing.shape, thing.tolist())
    if isinstance(thing, tuple | list):
        return [content(part) for part in thing]
    fields = getattr(thing, "__dataclass_fields__", None)
    if fields is None:
        return thing
    return [type(thing).__name__, *(content(getattr(thing, name)) for name in fields)]
