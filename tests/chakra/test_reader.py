"""Traces as Google's protobuf library writes them, read by the package's own code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import SourceError
from collc.chakra.reader import read_traces
from collc.kernels import compiled
from tests.chakra.public_schema import schema
from tests.chakra.support import varint

WHOLE = [f"{sign}{kind}{bits}_val" for kind in ("int", "fixed") for bits in (32, 64) for sign in ("", "s")]
WHOLE += ["uint32_val", "uint64_val"]
"""Fields of an attribute for a whole number."""


def fitting(field: str, value: int) -> int:
    return value % 2**31 if "32" in field else value


@pytest.mark.parametrize(
    "most", [compiled.MOST_PLAIN, pytest.param(-1, marks=pytest.mark.slow)], ids=["plain", "compiled"]
)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_every_field_is_read_as_protobuf_writes_it(most, data, tmp_path_factory):
    folder, nodes = tmp_path_factory.mktemp("traces"), [[], []]
    count = data.draw(st.integers(1, 12))
    ids = [data.draw(st.lists(st.integers(0, 2**62 - 1), min_size=count, max_size=count, unique=True)) for _ in nodes]
    for rank, own in enumerate(ids):
        for k, number in enumerate(own):
            kind = data.draw(st.sampled_from([4, 5, 6]))
            node = schema().node(id=number, type=kind, name=data.draw(st.text(max_size=9)))
            node.data_deps.extend(data.draw(st.lists(st.sampled_from(own[: k + 1]), max_size=3)))
            node.ctrl_deps.extend(data.draw(st.lists(st.sampled_from(own[: k + 1]), max_size=2)))
            values = {
                "comm_size": data.draw(st.integers(1, 2**31 - 1)),
                "comm_tag": data.draw(st.integers(0, 2**31 - 1)),
            }
            values["comm_dst" if kind == 5 else "comm_src"] = 1 - rank
            if kind == 4:
                node.duration_micros, values = data.draw(st.integers(0, 2**42 - 1)), {"num_ops": 2**40}
            for name in data.draw(st.permutations(sorted(values))):
                field = data.draw(st.sampled_from(WHOLE))
                node.attr.add(name=name, **{field: fitting(field, values[name])})
            nodes[rank].append((node, values))
        metadata = schema().metadata(version=data.draw(st.sampled_from(["", "0.0.4"])))
        parts = [metadata.SerializeToString(), *(node.SerializeToString() for node, _ in nodes[rank])]
        (folder / f"t.{rank}.et").write_bytes(b"".join(varint(len(part)) + part for part in parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "MOST_PLAIN", most)
        traces = read_traces(folder / "t")
    rows = [(rank, k) for rank in range(2) for k in sorted(range(count), key=ids[rank].__getitem__)]
    for row, (rank, k) in enumerate(rows):
        node, values = nodes[rank][k]
        peer = values.get("comm_dst", values.get("comm_src", -1))
        read = traces.id[row], traces.kind[row], traces.place[row], traces.duration[row], traces.names[row]
        assert read == (node.id, node.type, k, node.duration_micros, node.name)
        sent = traces.size[row], traces.peer[row], traces.tag[row]
        assert sent == (values.get("comm_size", 0), peer, values.get("comm_tag", 0))
        needed = traces.id[traces.before[traces.after == row]].tolist()
        assert needed == list(dict.fromkeys([*node.data_deps, *node.ctrl_deps]))


@pytest.mark.parametrize(("field", "value"), [("sint32_val", -3), ("sfixed64_val", -3), ("int64_val", 2**31)])
def test_tags_that_are_no_tags_of_astra_sim(field, value, tmp_path):
    node = schema().node(id=1, type=5)
    for name, field_of, number in (
        ("comm_size", "int64_val", 8),
        ("comm_dst", "int32_val", 1),
        ("comm_tag", field, value),
    ):
        node.attr.add(name=name, **{field_of: number})
    for rank, part in enumerate((node, schema().node(type=4))):
        data = part.SerializeToString()
        (tmp_path / f"t.{rank}.et").write_bytes(varint(0) + varint(len(data)) + data)
    with pytest.raises(SourceError, match=rf"comm_tag is {value}, not a whole number"):
        read_traces(tmp_path / "t")
