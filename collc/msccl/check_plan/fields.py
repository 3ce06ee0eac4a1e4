"""Fields of JSON objects, with their types checked; each function raises PlanError for a wrong or missing one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from collc.msccl.check.findings import FileLocation
from collc.msccl.check_plan.json_text import PlanError

BUFFERS: Final = {"i": 0, "o": 1, "s": 2}
CHANNEL_TYPES: Final = ("memory", "port")

JsonObject = dict[str, Any]
Item = TypeVar("Item")


def object_of(value: object, what: str, location: FileLocation) -> JsonObject:
    """A value that must be an object (X0402); what: its name in the message."""
    if not isinstance(value, dict):
        raise PlanError("X0402", f"{what} is not an object", location)
    return cast("JsonObject", value)


def list_of(item: JsonObject, name: str, location: FileLocation) -> list[Any]:
    """A list that must be there (X0402)."""
    value = item.get(name)
    if not isinstance(value, list):
        raise PlanError("X0402", f"{name} is missing or not a list", replace(location, attribute=name))
    return cast("list[Any]", value)


def optional_list_of(item: JsonObject, name: str, location: FileLocation) -> list[Any]:
    """A list that may be missing, and is empty then."""
    return list_of(item, name, location) if name in item else []


def is_number(value: object) -> bool:
    """Whether a value is an integer; JSON's true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def number_of(item: JsonObject, name: str, location: FileLocation, limit: int = 2**32) -> int:
    """An integer from 0 to below a limit, which is a power of two (X0402)."""
    value = item.get(name)
    if not is_number(value) or not 0 <= (number := cast("int", value)) < limit:
        text = f"{name} is missing or not a number of {limit.bit_length() - 1} bits"
        raise PlanError("X0402", text, replace(location, attribute=name))
    return number


def text_of(item: JsonObject, name: str, location: FileLocation) -> str:
    """A text of printable characters (X0402)."""
    value = item.get(name)
    if not isinstance(value, str) or not value.isprintable():
        raise PlanError("X0402", f"{name} is missing or not printable text", replace(location, attribute=name))
    return value


def channel_type_of(item: JsonObject, name: str, location: FileLocation, *, switch: bool = False) -> str:
    """One of `CHANNEL_TYPES` (X0402). switch: or "switch"."""
    kind = text_of(item, name, location)
    if kind not in CHANNEL_TYPES and not (switch and kind == "switch"):
        rule = "memory, port or switch" if switch else "memory or port"
        raise PlanError("X0402", f'{name} "{kind}"', replace(location, attribute=name), rule)
    return kind


def buffer_of(item: JsonObject, location: FileLocation) -> int:
    """The number of a buffer, from its `type` (X0402)."""
    name = text_of(item, "type", location)
    if name not in BUFFERS:
        raise PlanError("X0402", f'buffer type "{name}"', location, "i, o or s")
    return BUFFERS[name]


def item_at(items: list[Item], number: object, what: str, location: FileLocation) -> Item:
    """The item that a number of the plan refers to (X0403); what: the name of an item in the message."""
    if not is_number(number) or not 0 <= (position := cast("int", number)) < len(items):
        rule = f"0 .. {len(items) - 1}" if items else "none, as there are none"
        raise PlanError("X0403", f"there is no {what} {str(number)[:20]}", location, rule)
    return items[position]
