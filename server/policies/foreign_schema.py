"""Decides whether events may be decoded with a schema that a client has registered for `__change_events`. Does no I/O.

Any client that may produce to that topic may register a schema for that topic. fastavro follows a schema by recursion
on the C stack, without a bound. With a schema that contains itself, a short message overflows the stack, which ends the
process. With an array of values that take no bytes, a short message can ask for 2**63 values. So this module refuses
schemas that contain themselves, and schemas with values of no bytes, before fastavro sees them. With any other schema,
every value that fastavro decodes takes at least one byte of the message."""

from typing import Any

from pulsar_proto.errors import MalformedRecord

DEPTH_MAX = 32
"""How deep types may be nested. The schema that brokers register has a depth of 6."""


def check_schema(definition: Any) -> None:
    """Raises MalformedRecord when events must not be decoded with this schema."""
    _check(definition, ())


def _check(schema: Any, within: tuple[str, ...]) -> None:
    """Checks one type and the types inside it. `within` holds the names of the types that contain this type, from the
    outermost on; a type without a name counts as an empty string. Raises MalformedRecord when a type must not be
    used."""
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
    """Returns the types of a record's fields, of an array's items or of a map's values, and the type inside when an
    object only wraps another type."""
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
    """Returns the name without its namespace, so that a type is found by its simple name and by its full name."""
    return name.rpartition(".")[2]
