"""The messages of a Chakra trace (schema 0.0.4), as far as custom collectives use them.

The descriptors are built here in place of generated code. Fields of the schema that are not listed are skipped when a
file is read.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

REDUCTION_NS: Final = 1
"""What ASTRA-sim takes for a compute node without a duration."""

VERSION: Final = "0.0.4"
"""The version of the schema that collc writes."""

_PACKAGE: Final = "collc.chakra"

_SCALARS: Final = {"string": 9, "int32": 5, "int64": 3, "uint32": 13, "uint64": 4, "bool": 8}
"""Numbers of types in descriptors (google/protobuf/descriptor.proto, FieldDescriptorProto.Type)."""

_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3

_ATTRIBUTE: Final = {
    "name": ("string", 1),
    "int32_val": ("int32", 7),
    "int64_val": ("int64", 9),
    "uint32_val": ("uint32", 11),
    "uint64_val": ("uint64", 13),
    "bool_val": ("bool", 27),
    "string_val": ("string", 29),
}
_NODE: Final = {
    "id": ("uint64", 1),
    "name": ("string", 2),
    "type": ("int32", 3),
    "ctrl_deps": ("uint64 repeated", 4),
    "data_deps": ("uint64 repeated", 5),
    "duration_micros": ("uint64", 7),
    "attr": ("AttributeProto repeated", 10),
}
_METADATA: Final = {"version": ("string", 1), "attr": ("AttributeProto repeated", 2)}


class NodeType(IntEnum):
    """What a node does."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    SEND = 5
    RECV = 6
    COLL = 7


class CollectiveType(IntEnum):
    """`comm_type` of a node that runs a whole collective."""

    ALL_REDUCE = 0
    ALL_GATHER = 2
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7


Node = Any
"""A message of a trace, with the fields of `_NODE`."""
Message = Any


class Schema(NamedTuple):
    """The classes of messages, and the error of their readers."""

    node: Callable[..., Node]
    metadata: Callable[..., Message]
    decode_error: type[Exception]


@cache
def schema() -> Schema:
    """The classes of messages, made when they are first used, because protobuf takes time to load."""
    descriptors: Any = import_module("google.protobuf.descriptor_pb2")
    pools: Any = import_module("google.protobuf.descriptor_pool")
    factory: Any = import_module("google.protobuf.message_factory")
    file = descriptors.FileDescriptorProto(name="collc/chakra.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in (("AttributeProto", _ATTRIBUTE), ("Node", _NODE), ("GlobalMetadata", _METADATA)):
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for field_name, (kind, number) in fields.items():
            base, _, repeated = kind.partition(" ")
            field = message.field.add(name=field_name, number=number, label=_REPEATED if repeated else _OPTIONAL)
            field.type = _SCALARS.get(base, _MESSAGE)
            if field.type == _MESSAGE:
                field.type_name = f".{_PACKAGE}.{base}"
            if field_name.endswith("_val"):
                field.oneof_index = 0
    pool = pools.DescriptorPool()
    pool.Add(file)
    node, metadata = (
        factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in ("Node", "GlobalMetadata")
    )
    return Schema(node, metadata, import_module("google.protobuf.message").DecodeError)
