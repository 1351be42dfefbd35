"""A schema that somebody else registered for events is not used when decoding with it would never end, or would end the
process."""

from typing import Any

import pytest

from magnetar.server.policies.event_schema import EVENT_SCHEMA
from magnetar.server.policies.foreign_schema import DEPTH_MAX, check_schema
from pulsar_proto.errors import MalformedRecord


def record(*types: Any, name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{at}", "type": each} for at, each in enumerate(types)],
    }


def nested(depth: int) -> Any:
    schema: Any = "int"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


ENDLESS = {
    "contains itself": record(["null", "R"]),
    "contains itself by its full name": {**record(["null", "a.b.R"]), "namespace": "a.b"},
    "contains itself by way of another": record(record(["null", "R"], name="S")),
    "an array of itself": record({"type": "array", "items": "R"}),
    "a map of itself": record({"type": "map", "values": "R"}),
    "an array of nothing": record({"type": "array", "items": "null"}),
    "an array of nothing in braces": record({"type": "array", "items": {"type": "null"}}),
    "an array of empty records": record({"type": "array", "items": record(name="E")}),
    "an array of records of nothing": record({"type": "array", "items": record("null", name="E")}),
    "an array of nothing fixed": record({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}),
    "fields of nothing": record("null", "null"),
    "too deep": record(nested(DEPTH_MAX)),
    "far too deep": record(nested(500)),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_schema_without_an_end_is_not_used(what: str) -> None:
    with pytest.raises(MalformedRecord, match="its schema"):
        check_schema(ENDLESS[what])


def test_that_of_brokers_is_used() -> None:
    check_schema(EVENT_SCHEMA)
    check_schema(record(["null", "int"], {"type": "array", "items": ["null", "string"]}, record("int", name="S"), "S"))
