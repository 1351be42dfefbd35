"""Whether events may be decoded by a schema that somebody registered for `__change_events`. Pure.

Whoever may produce there may register one. The Avro library follows a schema on the C stack and without a bound: by one
that contains itself a short message ends the process, and by one whose values take no bytes it has no end. So neither
is used: then each value that is decoded has taken at least a byte of the message.
"""

from typing import Any

from pulsar_proto.errors import MalformedRecord

DEPTH_MAX = 32
"""Of types within types. The schema that brokers register has 6."""


def check_schema(definition: Any) -> None:
    """Raises MalformedRecord."""
    _check(definition, ())


def _check(schema: Any, within: tuple[str, ...]) -> None:
    """`within`: names of the types around, an empty one for those that have none."""
    if len(within) > DEPTH_MAX:
        raise MalformedRecord("its schema is nested too deeply")
    if isinstance(schema, str):
        if _simple(schema) in within:
            raise MalformedRecord(f"its schema contains itself in {schema}")
    elif isinstance(schema, list):
        for each in schema:
            _check(each, (*within, ""))
    elif isinstance(schema, dict):
        name = schema.get("name")
        inside = (*within, _simple(name) if isinstance(name, str) else "")
        for part in _parts(schema):
            if _may_be_empty(part):
                raise MalformedRecord("its schema has values that take no bytes")
            _check(part, inside)


def _parts(schema: dict[str, Any]) -> list[Any]:
    """The types of a record's fields, an array's items or a map's values; a type in braces without need is its own."""
    fields = schema.get("fields")
    found = [each.get("type") for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []
    found += [schema[key] for key in ("items", "values") if key in schema]
    if isinstance(schema.get("type"), dict | list):
        found.append(schema["type"])
    return found


def _may_be_empty(schema: Any) -> bool:
    if isinstance(schema, dict):
        kind = schema.get("type")
        return kind == "null" or (kind == "record" and not schema.get("fields")) or schema.get("size") == 0
    return bool(schema == "null")


def _simple(name: str) -> str:
    return name.rpartition(".")[2]
