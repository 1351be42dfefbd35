"""Checks whether a query's columns fit the JSON schema that a topic has already.

Brokers compare schemas, never values: a row that does not fit would be stored, and read as nulls. Both the columns and
the topic's schema are given as Avro definitions, because Pulsar describes JSON by these.
"""

from collections.abc import Mapping
from typing import Any

NULL = "null"
_FAMILIES = {
    **dict.fromkeys(("int", "long", "float", "double"), "a number"),
    **dict.fromkeys(("string", "enum", "bytes", "fixed"), "text"),
    "boolean": "a boolean",
    "array": "an array",
    "map": "a map",
    "record": "a record",
}


def misfit(columns: Mapping[str, Any], topic: Mapping[str, Any]) -> str:
    """Returns a sentence that names a column that does not fit or is missing, or an empty text when all columns fit.
    The function does not look into nested records."""
    known = {field["name"]: field for field in topic["fields"]}
    given = {field["name"]: field for field in columns["fields"]}
    for name, field in given.items():
        if name not in known:
            return f"column {name} is not in the topic's JSON schema, which has {', '.join(known)}"
        ours, expected = _family(field["type"]), _family(known[name]["type"])
        if ours and expected and ours != expected:
            return f"column {name} is {ours}; in the topic's JSON schema it is {expected}"
    for name, field in known.items():
        if name not in given and "default" not in field and not _may_be_null(field["type"]):
            return f"there is no column {name}, which the topic's JSON schema needs"
    return ""


def never_null(columns: Mapping[str, Any], topic: Mapping[str, Any]) -> list[str]:
    """Returns the columns that may hold nulls although the topic's schema allows none, so that each row has to be
    checked."""
    required = {field["name"] for field in topic["fields"] if not _may_be_null(field["type"])}
    return [field["name"] for field in columns["fields"] if field["name"] in required and _may_be_null(field["type"])]


def _may_be_null(kind: Any) -> bool:
    return kind == NULL or (isinstance(kind, list) and NULL in kind)


def _family(kind: Any) -> str:
    """Returns the kind of JSON value that a type is written as. The text is empty when there may be several kinds, as
    for a decimal, which is written as a number or as text, or when the type is a name."""
    if isinstance(kind, list):
        parts = [part for part in kind if part != NULL]
        return _family(parts[0]) if len(parts) == 1 else ""
    if isinstance(kind, dict):
        return "" if kind.get("logicalType") == "decimal" else _family(kind["type"])
    return _FAMILIES.get(kind, "")
