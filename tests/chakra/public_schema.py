"""The messages of a Chakra trace as Google's protobuf library reads and writes them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "public.chakra"

_SCALARS = {"string": 9, "int32": 5, "int64": 3, "uint32": 13, "uint64": 4, "bool": 8}
_SCALARS |= {"sint32": 17, "sint64": 18, "fixed32": 7, "fixed64": 6, "sfixed32": 15, "sfixed64": 16, "double": 1}

_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3

_ATTRIBUTE = {
    "name": ("string", 1),
    "int32_val": ("int32", 7),
    "int64_val": ("int64", 9),
    "uint32_val": ("uint32", 11),
    "uint64_val": ("uint64", 13),
    "sint32_val": ("sint32", 15),
    "sint64_val": ("sint64", 17),
    "fixed32_val": ("fixed32", 19),
    "fixed64_val": ("fixed64", 21),
    "sfixed32_val": ("sfixed32", 23),
    "sfixed64_val": ("sfixed64", 25),
    "double_val": ("double", 3),
    "bool_val": ("bool", 27),
    "string_val": ("string", 29),
}
_NODE = {
    "id": ("uint64", 1),
    "name": ("string", 2),
    "type": ("int32", 3),
    "ctrl_deps": ("uint64 repeated", 4),
    "data_deps": ("uint64 repeated", 5),
    "duration_micros": ("uint64", 7),
    "attr": ("AttributeProto repeated", 10),
}
_METADATA = {"version": ("string", 1), "attr": ("AttributeProto repeated", 2)}


class Schema(NamedTuple):
    """The classes of messages."""

    node: type
    metadata: type


@cache
def schema() -> Schema:
    """The classes, from the numbers of their fields in Chakra's schema."""
    file = descriptor_pb2.FileDescriptorProto(name="public/chakra.proto", package=_PACKAGE, syntax="proto3")
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
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    node, metadata = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in ("Node", "GlobalMetadata")
    )
    return Schema(node, metadata)
