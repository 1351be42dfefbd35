"""Reads and writes the JSON of the load balancer's records as Jackson does for Pulsar. Does no I/O.

Readers are tolerant: unknown fields are ignored, and a field that is missing, null, of another kind or not a finite
number has its default. Writers give compact JSON without null fields, in the order of the given dict; a number that is
not finite is written as 0, because JSON cannot express such a number. Source: ObjectMapperFactory of pulsar-common.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import orjson

Json = dict[str, Any]

LONG_MAX = 2**63 - 1
"""Java's Long.MAX_VALUE. A larger whole number is read as this one."""


def parse(value: bytes) -> Json | None:
    """Returns the JSON object in a record, or None when the record is not a JSON object."""
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def to_bytes(record: Json) -> bytes:
    """Returns the record as Jackson writes it with NON_NULL: compact, and without fields that are None."""
    return orjson.dumps({name: value for name, value in record.items() if value is not None})


def number(record: Mapping[str, Any], name: str, default: float = 0.0) -> float:
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return default
    return float(value)


def whole(record: Mapping[str, Any], name: str, default: int = 0) -> int:
    return max(-LONG_MAX, min(LONG_MAX, int(number(record, name, default))))


def text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def flag(record: Mapping[str, Any], name: str, default: bool) -> bool:
    value = record.get(name)
    return value if isinstance(value, bool) else default


def obj(record: Mapping[str, Any], name: str) -> Json:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def texts(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = record.get(name)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def finite(value: float) -> float:
    return value if isfinite(value) else 0.0
