"""Spark's rows as what orjson writes."""

import base64
import datetime
import decimal
from collections.abc import Callable
from typing import Any

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def micros(value: datetime.datetime) -> int:
    """Since the epoch; a time without a zone is taken as it stands, wherever the executor is."""
    return ((value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - _EPOCH) // _MICROSECOND


def plain(value: Any, definition: Any = None) -> Any:
    """What orjson writes: timestamps become milliseconds, bytes base64, decimals numbers, or text where no float is
    the same number. `definition`: Avro's of the value, if some of its timestamps are in microseconds."""
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
    """The definition itself, out of its union with null; empty where it is a name or nothing."""
    if isinstance(definition, list):
        definition = next((each for each in definition if each != "null"), None)
    if isinstance(definition, dict) and isinstance(definition.get("type"), dict | list):
        return _part(definition["type"])
    return definition if isinstance(definition, dict) else {}


def _definitions(definition: Any) -> Callable[[str], Any]:
    """Of a record's fields or a map's values, by name."""
    if definition is None:
        return _nothing
    part = _part(definition)
    if "values" in part:
        return lambda name: part["values"]
    return {field["name"]: field["type"] for field in part.get("fields", ())}.get


def _nothing(name: str) -> None:
    return None
