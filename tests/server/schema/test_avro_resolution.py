"""Avro schemas get the same verdicts, equality and text as in Java's library, and whatever is called readable can be
read."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from magnetar.server.schema.avro_resolution_rules import can_read
from magnetar.server.schema.avro_schema import DEPTH_MAX, AvroParseError, AvroSchema, parse_avro, pretty, same_schema
from tests.pulsar_proto.vectors import FOLDER
from tests.rounds import rounds

PAIRS: list[dict[str, Any]] = json.loads((FOLDER / "avro_resolution.json").read_text())["pairs"]


def parsed(text: str) -> AvroSchema | None:
    try:
        return parse_avro(text)
    except AvroParseError:
        return None


def test_verdicts_are_those_of_java() -> None:
    assert len(PAIRS) > 400
    for pair in PAIRS:
        writer, reader = parsed(pair["writer"]), parsed(pair["reader"])
        if pair["verdict"] == "no schema":
            assert writer is None or reader is None, pair
            continue
        assert writer is not None, pair
        assert reader is not None, pair
        verdict = can_read(writer, reader)
        if pair["verdict"] != "bad default":  # Java throws for these and gives no verdict
            assert verdict == (pair["verdict"] == "readable"), pair
        assert same_schema(writer, reader) == pair["equal"], pair


@pytest.mark.parametrize("kind", ['["null", "int"]', '{"type": "array", "items": "int"}'])
def test_a_record_of_another_name_is_matched_without_a_look_into_its_unions_and_arrays(kind: str) -> None:
    """Java's Resolver.ReaderUnion.hasMatchError accepts such a record by its kind alone."""
    text = '{"type": "record", "name": "%s", "fields": [{"name": "f", "type": ' + kind + "}]}"
    assert can_read(parse_avro(text % "A"), parse_avro("[" + text % "B" + "]"))


def test_schemas_are_printed_as_java_prints_them() -> None:
    printed = [pair for pair in PAIRS if "reader_printed" in pair]
    assert printed
    for pair in printed:
        assert pretty(parse_avro(pair["reader"])) == pair["reader_printed"]


@pytest.mark.parametrize("text", ["", "{bad", "\xff", "[" * 100_000, "nul", '{"type": {"type": "record"}}', "5"])
def test_what_is_no_schema_is_said_to_be_none(text: str) -> None:
    with pytest.raises(AvroParseError):
        parse_avro(text)


@pytest.mark.parametrize(
    ("names", "full_name"),
    [
        ('"name": "P", "namespace": "Outer$"', "Outer$.P"),
        ('"name": "Outer$.P"', "Outer$.P"),
        ('"name": "P", "namespace": "a..b"', "a..b.P"),
        ('"name": "P", "aliases": ["Outer$.Q"]', "P"),
        ('"name": "P$"', None),
        ('"name": "P", "aliases": ["Q$"]', None),
    ],
)
def test_only_what_follows_the_last_dot_has_to_be_a_name(names: str, full_name: str | None) -> None:
    """Shown by experiment with avro 1.11.4: names are not checked up to the last dot, because Avro 1.8 gave nested
    classes a namespace that ends in a dollar."""
    found = parsed(f'{{"type": "record", {names}, "fields": []}}')
    assert (found and found.full_name) == full_name


def test_bytes_that_are_no_text_are_no_schema() -> None:
    with pytest.raises(AvroParseError):
        parse_avro(b"\xff\xfe\x00")


def test_types_nested_beyond_the_limit_are_refused() -> None:
    def nested(depth: int) -> str:
        return '{"type": "array", "items": ' * depth + '"int"' + "}" * depth

    assert parsed(nested(DEPTH_MAX)) is not None
    with pytest.raises(AvroParseError, match="nested deeper"):
        parse_avro(nested(DEPTH_MAX + 1))


def test_the_default_of_a_union_may_be_of_any_branch() -> None:
    writer = parse_avro('{"type": "record", "name": "A", "fields": []}')
    for default, readable in (('""', True), ("null", True), ("5", False)):
        field = f'{{"name": "a", "type": ["null", "string"], "default": {default}}}'
        assert can_read(writer, parse_avro(f'{{"type": "record", "name": "A", "fields": [{field}]}}')) == readable


# --- against what a library reads -------------------------------------------------------------------------------------

PRIMITIVE_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=5),
}
DEFAULTS: dict[str, Any] = {"null": None, "boolean": True, "int": 1, "long": 2, "double": 1.5, "string": "x"}
PRIMITIVE = st.sampled_from(sorted(PRIMITIVE_VALUES))


def shapes(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, children),
        st.builds(lambda values: {"type": "map", "values": values}, children),
        st.builds(
            lambda fields: {"type": "record", "name": "R", "fields": fields},
            st.lists(fields(children), max_size=3, unique_by=lambda field: str(field["name"])),
        ),
    )


def fields(children: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    def field(name: str, schema: Any, with_default: bool) -> dict[str, Any]:
        made = {"name": name, "type": schema}
        if with_default and isinstance(schema, str):
            made["default"] = DEFAULTS[schema]
        return made

    types = st.one_of(children, st.lists(PRIMITIVE, min_size=1, max_size=2, unique=True))
    return st.builds(field, st.sampled_from("abc"), types, st.booleans())


SCHEMAS = st.recursive(PRIMITIVE, shapes, max_leaves=4)


def named_apart(schema: Any, taken: list[int]) -> Any:
    """Gives every record of the schema a name of its own, by its place."""
    if isinstance(schema, list):
        return [named_apart(each, taken) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        key: named_apart(value, taken) if key in ("items", "values", "type") else value for key, value in schema.items()
    }
    if schema.get("type") == "record":
        taken.append(0)
        made["name"] = f"R{len(taken)}"
        made["fields"] = [named_apart(field, taken) for field in schema["fields"]]
    return made


def data_of(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, str):
        return PRIMITIVE_VALUES[schema]
    if isinstance(schema, list):
        return st.one_of(*map(data_of, schema))
    if schema["type"] == "array":
        return st.lists(data_of(schema["items"]), min_size=1, max_size=2)
    if schema["type"] == "map":
        return st.dictionaries(st.text(max_size=2), data_of(schema["values"]), min_size=1, max_size=2)
    return st.fixed_dictionaries({field["name"]: data_of(field["type"]) for field in schema["fields"]})


@settings(
    max_examples=rounds(150), deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(st.data())
def test_what_is_said_to_be_readable_is_read_by_fastavro(data: st.DataObject) -> None:
    writer = named_apart(data.draw(SCHEMAS), [])
    reader = named_apart(data.draw(st.one_of(st.just(writer), SCHEMAS)), [])
    assume(can_read(parse_avro(json.dumps(writer)), parse_avro(json.dumps(reader))))
    datum = data.draw(data_of(writer))
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(writer), datum)
    buffer.seek(0)
    fastavro.schemaless_reader(buffer, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
