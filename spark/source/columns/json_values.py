"""Turns Spark's values into values that orjson can write."""

import base64
import datetime
import decimal
from collections.abc import Callable
from typing import Any

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def micros(value: datetime.datetime) -> int:
    """Returns microseconds since the epoch. A time without a zone counts as UTC, whatever zone the executor is in."""
    return ((value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - _EPOCH) // _MICROSECOND


def plain(value: Any, definition: Any = None) -> Any:
    """Returns a value that orjson can write. Timestamps become milliseconds, bytes become base64, decimals become
    numbers, or text when no float equals them. `definition` is the value's Avro definition; it is needed when some of
    the timestamps are in microseconds."""
    if isinstance(value, dict):
        fields = _definitions(definition)
        return {key: plain(item, fields(key)) for key, item in value.items()}
    if isinstance(value, list):
        inside = _part(definition).get("items")
        return [plain(item, inside) for item in value]
    if isinstance(value, datetime.datetime):
        in_micros = str(_part(definition).get("logicalType")).endswith("-micros")
        return micros(value) if in_micros else micros(value) // 1000
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return float(value) if decimal.Decimal(repr(float(value))) == value else str(value)
    return value


def _part(definition: Any) -> dict[str, Any]:
    """Returns a type's definition, taken out of its union with null. When the definition is a name or None, returns an
    empty one."""
    if isinstance(definition, list):
        definition = next((each for each in definition if each != "null"), None)
    if isinstance(definition, dict) and isinstance(definition.get("type"), dict | list):
        return _part(definition["type"])
    return definition if isinstance(definition, dict) else {}


def _definitions(definition: Any) -> Callable[[str], Any]:
    """Returns a function from the name of a record's field, or a map's key, to the definition of its value."""
    if definition is None:
        return _nothing
    part = _part(definition)
    if "values" in part:
        return lambda name: part["values"]
    return {field["name"]: field["type"] for field in part.get("fields", ())}.get


def _nothing(name: str) -> None:
    return None
