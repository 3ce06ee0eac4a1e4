"""The JSON of the HTTP interface as JSON Schema (draft 2020-12), made from what the planner reads and writes."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

from collc.application.planner.answers import Origin
from collc.application.planner.plan_store import PlanFacts
from collc.application.planner.values import RUNTIMES, parameters
from collc.ten.link_model import LinkModel
from collc.ten.standard_collectives import shapes

Schema = dict[str, object]

_OF_TYPE: dict[str, Schema] = {
    "bytes": {"type": ["string", "integer"], "description": "as 1GiB, or a number of bytes"},
    "int": {"type": "integer", "minimum": 0},
    "string": {"type": "string"},
}
_RANKS: Schema = {"type": "array", "items": {"type": ["integer", "null"]}}
_OF_FACT: dict[str, Schema] = {
    "int": {"type": "integer"},
    "int | None": {"type": ["integer", "null"]},
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "tuple[int, ...]": {"type": "array", "items": {"type": "integer"}},
    "tuple[str, ...]": {"type": "array", "items": {"type": "string"}},
    "dict[str, str]": {"type": "object", "additionalProperties": {"type": "string"}},
}


def _run_keys() -> dict[str, Schema]:
    """The keys of a run of any collective."""
    keys: dict[str, Schema] = {
        "collective": {"enum": [*shapes()]},
        "npus": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "uniqueItems": True},
    }
    for collective in shapes():
        for name, kind in parameters(collective).items():
            keys[name] = _OF_TYPE.get(kind, {"type": "array"})
    keys["chunks"] = {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1}]}
    return keys


def request_schema() -> Schema:
    """The schema of a request."""
    run: Schema = {"type": "object", "properties": _run_keys(), "required": ["collective"]}
    own: dict[str, Schema] = {
        "beside": {"type": "array", "items": {**run, "additionalProperties": False}},
        "dead": {"type": ["string", "array"], "items": {"type": "string"}},
        "slow": {
            "type": ["object", "null"],
            "additionalProperties": {"type": ["string", "number"]},
            "description": "what is left of the bandwidth of parts, as 25GB/s or 1/2",
        },
        "runtime": {"enum": [*RUNTIMES, "", None]},
        "link_model": {"enum": [*(model.value for model in LinkModel), "", None]},
        "within": {"type": ["string", "number", "null"], "description": "a deadline, as 500ms, or seconds"},
    }
    return {**run, "properties": {**_run_keys(), **own}, "additionalProperties": False}


def answer_schema() -> Schema:
    """The schema of an answer."""
    keys: dict[str, Schema] = {
        "key": {"type": "string"},
        "origin": {"enum": [*get_args(Origin)]},
        "final": {"type": "boolean"},
        **{fact.name: _OF_FACT[str(fact.type)] for fact in fields(PlanFacts)},
        "ranks": {"type": "array", "items": _RANKS},
        "files": {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "description": "bytes by name; empty if the answer is not final",
        },
    }
    return {"type": "object", "properties": keys, "required": [*keys], "additionalProperties": False}


def error_schema() -> Schema:
    """The schema of what is returned with a status of 400 or more."""
    message: Schema = {"type": "object", "properties": {"code": {"type": "string"}, "message": {"type": "string"}}}
    return {"type": "object", "properties": {"diagnostics": {"type": "array", "items": message}}}


def interface_schema() -> Schema:
    """All schemas: what `GET /v1/schema` returns."""
    parts = {"request": request_schema(), "answer": answer_schema(), "error": error_schema()}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": parts}
