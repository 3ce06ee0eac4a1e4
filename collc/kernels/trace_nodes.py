"""The nodes of a Chakra trace, read from the bytes of its file.

Written for plain Python on bytes and for Numba on an array of bytes (collc/kernels/compiled.py). A file is a stream of
protobuf messages (schema 0.0.4), each after its length as a varint: the metadata, then the nodes. Fields that are not
listed here are skipped.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Final, NamedTuple

from collc.kernels.compiled import inline, without_references

WORDS: Final = b"comm_sizecomm_typecomm_srccomm_dstcomm_tag"
"""Names of the attributes that are read, behind one another."""

SIZE, TYPE, SOURCE, TARGET, TAG = range(5)
"""Numbers of the attributes, in the order of WORDS."""

MISSING, WHOLE, OTHER = range(3)
"""What an attribute is: not there, a whole number, something else."""

_VARINT, _FIXED64, _DELIMITED = range(3)

FINE, CUT_OFF, LONG_LENGTH, CUT_MESSAGE, LARGE_MESSAGE, NO_METADATA, NO_NODE, TOO_MANY = range(8)
"""How reading ends."""


class NodeColumns(NamedTuple):
    """What is read, for n nodes in the order of the file.

    id, kind, duration: [n]. attributes, given: [5 n], of node k the values from 5 k on, and what they are. name,
    name_end: [n], bytes of the file. waits: [n], how many dependencies. needed, controls: [dependencies], of one node
    after the other: the id of the node that it waits for, and whether as a control dependency.
    """

    id: MutableSequence[int]
    kind: MutableSequence[int]
    duration: MutableSequence[int]
    attributes: MutableSequence[int]
    given: MutableSequence[int]
    name: MutableSequence[int]
    name_end: MutableSequence[int]
    waits: MutableSequence[int]
    needed: MutableSequence[int]
    controls: MutableSequence[int]


@without_references
def read_nodes(
    data: Sequence[int], words: Sequence[int], columns: NodeColumns, most_bytes: int
) -> tuple[int, int, int, int]:
    """(nodes, dependencies, how it ends, position): reads until the end or the first error, whose position it gives.

    words: WORDS. most_bytes: of one message.
    """
    position, nodes, dependencies = 0, -1, 0
    while position < len(data):
        begin = position
        length, position = _varint(data, begin, min(len(data), begin + 5))
        if position < 0:
            return nodes, dependencies, LONG_LENGTH if begin + 5 <= len(data) else CUT_OFF, begin
        if length > most_bytes:
            return nodes, dependencies, LARGE_MESSAGE, begin
        if position + length > len(data):
            return nodes, dependencies, CUT_MESSAGE, begin
        end = position + length
        if nodes < 0:
            if not _is_metadata(data, position, end):
                return nodes, dependencies, NO_METADATA, begin
        elif nodes == len(columns.id):
            return nodes, dependencies, TOO_MANY, begin
        else:
            dependencies = _read_node(data, words, columns, nodes, dependencies, position, end)
            if dependencies < 0:
                return nodes, 0, -dependencies, begin
        nodes, position = nodes + 1, end
    return max(0, nodes), dependencies, FINE if nodes >= 0 else NO_METADATA, 0


@inline
def _varint(data: Sequence[int], begin: int, end: int) -> tuple[int, int]:
    """(number, position behind it): as a signed number of 64 bits; position -1 if it does not end before `end`."""
    value, shift, position, more = 0, 0, begin, True
    while more and position < end and shift < 64:
        byte = int(data[position])
        if shift < 63:
            value |= (byte & 127) << shift
        elif byte & 1:
            value += -(2**63)
        more = byte > 127
        position, shift = position + 1, shift + 7
    return value, -1 if more else position


@inline
def _skip(data: Sequence[int], wire: int, begin: int, end: int) -> int:
    """The position behind a value of a wire type; -1 if it has no such value."""
    position = -1
    if wire == _VARINT:
        _, position = _varint(data, begin, end)
    elif wire == _FIXED64:
        position = begin + 8
    elif wire == _DELIMITED:
        length, position = _varint(data, begin, end)
        if position >= 0:
            position = -1 if length < 0 or length > end - position else position + length
    elif wire == 5:
        position = begin + 4
    return position if position <= end else -1


@without_references
def _is_metadata(data: Sequence[int], begin: int, end: int) -> bool:
    """Whether a message is GlobalMetadata, with a version or without: a string and attributes."""
    position = begin
    while 0 <= position < end:
        key, position = _varint(data, position, end)
        if position >= 0:
            position = _skip(data, key & 7, position, end) if key in (10, 18) else -1
    return position == end


@without_references
def _read_node(
    data: Sequence[int],
    words: Sequence[int],
    columns: NodeColumns,
    node: int,
    dependencies: int,
    begin: int,
    end: int,
) -> int:
    """Reads a node. Returns how many dependencies are read by then, or -NO_NODE, or -TOO_MANY for more of them."""
    first, position = dependencies, begin
    columns.id[node] = columns.kind[node] = columns.duration[node] = columns.name[node] = columns.name_end[node] = 0
    for k in range(5):
        columns.given[5 * node + k] = MISSING
    while position < end:
        key, position = _varint(data, position, end)
        if position < 0:
            return -NO_NODE
        field, wire, here = key >> 3, key & 7, position
        position = _skip(data, wire, here, end)
        if position < 0 or field == 0:
            return -NO_NODE
        if wire == _DELIMITED:
            _, here = _varint(data, here, end)
        if wire == _VARINT and field in (1, 3, 7):
            value, _ = _varint(data, here, end)
            column = columns.id if field == 1 else columns.kind if field == 3 else columns.duration
            column[node] = value
        elif wire == _DELIMITED and field == 2:
            columns.name[node], columns.name_end[node] = here, position
        elif wire == _DELIMITED and field == 10:
            if not _read_attribute(data, words, columns, node, here, position):
                return -NO_NODE
        elif wire in (_VARINT, _DELIMITED) and field in (4, 5):
            dependencies = _read_dependencies(data, columns, dependencies, field, here, position)
            if dependencies < 0:
                return dependencies
    columns.waits[node] = dependencies - first
    return dependencies


@inline
def _read_dependencies(
    data: Sequence[int], columns: NodeColumns, dependencies: int, field: int, begin: int, end: int
) -> int:
    """Reads one dependency or several, and returns like `_read_node`."""
    here = begin
    while here < end:
        value, here = _varint(data, here, end)
        if here < 0:
            return -NO_NODE
        if dependencies == len(columns.needed):
            return -TOO_MANY
        columns.needed[dependencies], columns.controls[dependencies] = value, int(field == 4)
        dependencies += 1
    return dependencies


@without_references
def _read_attribute(
    data: Sequence[int], words: Sequence[int], columns: NodeColumns, node: int, begin: int, end: int
) -> bool:
    """Reads an AttributeProto: its name (1), a text (2) and one value of the type that its field says.

    Of several attributes of one name, the first counts, as in ASTRA-sim. Returns False if it is none.
    """
    name, value, given, position = -1, 0, MISSING, begin
    while position < end:
        key, position = _varint(data, position, end)
        if position < 0:
            return False
        field, wire, here = key >> 3, key & 7, position
        position = _skip(data, wire, here, end)
        if position < 0 or field == 0:
            return False
        if field == 1 and wire == _DELIMITED:
            _, here = _varint(data, here, end)
            name = _attribute_number(data, words, here, position)
        elif field > 2:
            given = OTHER
            if wire == _VARINT and (
                7 <= field <= 17 or field == 27
            ):  # int32, int64, uint32, uint64, sint32, sint64, bool
                value, _ = _varint(data, here, end)
                value, given = (value >> 1 & 2**63 - 1) ^ -(value & 1) if field in (15, 17) else value, WHOLE
            elif wire in (1, 5) and 19 <= field <= 25:  # fixed32, fixed64, sfixed32, sfixed64
                value, given, last = 0, WHOLE, position - here - 1
                for k in range(last + 1):
                    byte = int(data[here + k])
                    signed = k == last and byte > 127 and (wire == _FIXED64 or field > 22)
                    value += (byte - 256 if signed else byte) << 8 * k
    if name >= 0 and columns.given[5 * node + name] == MISSING:
        columns.attributes[5 * node + name], columns.given[5 * node + name] = value, given
    return True


@inline
def _attribute_number(data: Sequence[int], words: Sequence[int], begin: int, end: int) -> int:
    """The number of the attribute with a name; -1 if it is none of WORDS."""
    number, word, length = -1, 0, 0
    for k in range(5):
        length = 9 if k < 2 else 8
        if number < 0 and end - begin == length and data[begin + 5] == words[word + 5]:
            number = k
            for letter in range(length):
                number = number if data[begin + letter] == words[word + letter] else -1
        word += length
    return number
