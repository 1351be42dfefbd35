"""Which schema may follow which, by strategy and type, with the refusals in Java's words."""

import json
from base64 import b64encode
from typing import Any

import pytest
from google.protobuf import descriptor_pb2 as descriptors

from magnetar.server.schema.compatibility_rules import check_consumer, check_next_version, version_of
from magnetar.server.schema.definition_rules import DATA_BYTES_MAX, validate
from magnetar.server.schema.key_value import join_key_value, key_value_of_json, key_value_to_json, split_key_value
from magnetar.server.schema.schema_types import (
    InvalidSchema,
    Schema,
    SchemaConflict,
    SchemaType,
    StoredSchema,
    schema_of_record,
    schema_to_record,
    type_named,
)
from magnetar.server.schema.strategies import CompatibilityStrategy as Strategy
from tests.pulsar_proto.vectors import load, unhex

A_INT = {"name": "a", "type": "int"}
B_OPTIONAL = {"name": "b", "type": ["null", "string"], "default": None}
B_REQUIRED = {"name": "b", "type": "string"}


def avro(*fields: dict[str, Any], kind: SchemaType = SchemaType.AVRO) -> Schema:
    return Schema(kind, json.dumps({"type": "record", "name": "A", "fields": list(fields)}).encode())


def versions(*schemas: Schema) -> list[StoredSchema]:
    return [StoredSchema(number, schema) for number, schema in enumerate(schemas)]


def follows(schema: Schema, strategy: Strategy, *existing: Schema) -> bool:
    try:
        check_next_version(schema, versions(*existing), strategy)
    except SchemaConflict:
        return False
    return True


@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF])
def test_each_strategy_allows_its_changes(kind: SchemaType) -> None:
    one, optional_added = avro(A_INT, kind=kind), avro(A_INT, B_OPTIONAL, kind=kind)
    required_added = avro(A_INT, B_REQUIRED, kind=kind)
    always = {Strategy.ALWAYS_COMPATIBLE}
    backward, forward = {Strategy.BACKWARD}, {Strategy.FORWARD}
    transitive = {Strategy.BACKWARD_TRANSITIVE: Strategy.BACKWARD, Strategy.FORWARD_TRANSITIVE: Strategy.FORWARD}
    transitive[Strategy.FULL_TRANSITIVE] = Strategy.FULL
    full = {Strategy.FULL}
    for old, new, allowed in (
        (one, optional_added, backward | forward | full),
        (optional_added, one, backward | forward | full),
        (one, required_added, forward),
        (required_added, one, backward),
        (avro(A_INT, kind=kind), avro({"name": "a", "type": "string"}, kind=kind), set()),
        (avro(A_INT, kind=kind), avro({"name": "a", "type": "long"}, kind=kind), backward),
    ):
        for strategy in Strategy:
            if strategy is Strategy.UNDEFINED:
                continue
            plain = transitive.get(strategy, strategy)
            assert follows(new, strategy, old) == (plain in allowed | always), (strategy, old.data, new.data)


def test_only_transitive_strategies_look_at_all_versions() -> None:
    first, second = avro(A_INT, B_REQUIRED), avro(A_INT)
    third = avro(A_INT, {"name": "b", "type": "int", "default": 1})
    assert follows(third, Strategy.BACKWARD, first, second)
    assert not follows(third, Strategy.BACKWARD_TRANSITIVE, first, second)
    assert follows(second, Strategy.FULL_TRANSITIVE)


def test_an_incompatible_schema_is_refused_in_javas_words() -> None:
    """The text comes from a capture of 4.0.7, `raw: producer with an AVRO schema incompatible with version 0`."""
    a = {"name": "a", "type": ["null", "string"]}
    b = {"name": "b", "type": ["null", "int"]}
    with pytest.raises(SchemaConflict) as caught:
        check_next_version(avro(a, b), versions(avro({"name": "zz", "type": "int"})), Strategy.FULL)
    assert str(caught.value) == (
        "Error during schema compatibility check with strategy FULL: org.apache.avro.SchemaValidationException: "
        'Unable to read schema: \n{\n  "type" : "record",\n  "name" : "A",\n  "fields" : [ {\n    "name" : "a",\n'
        '    "type" : [ "null", "string" ]\n  }, {\n    "name" : "b",\n    "type" : [ "null", "int" ]\n  } ]\n}\n'
        'using schema:\n{\n  "type" : "record",\n  "name" : "A",\n  "fields" : [ {\n    "name" : "zz",\n'
        '    "type" : "int"\n  } ]\n}'
    )


def test_another_type_never_follows_but_where_everything_may() -> None:
    existing = versions(avro(A_INT))
    for strategy in Strategy:
        if strategy is Strategy.ALWAYS_COMPATIBLE:
            check_next_version(Schema(SchemaType.STRING), existing, strategy)
            continue
        with pytest.raises(SchemaConflict, match="exists schema type AVRO, new schema type STRING"):
            check_next_version(Schema(SchemaType.STRING), existing, strategy)


def test_primitive_types_follow_themselves() -> None:
    assert follows(Schema(SchemaType.INT32), Strategy.FULL, Schema(SchemaType.INT32))
    assert not follows(Schema(SchemaType.STRING, b"null"), Strategy.ALWAYS_INCOMPATIBLE, Schema(SchemaType.STRING))


def doubling(levels: int) -> dict[str, Any]:
    """Returns a schema with a nested default that is visited twice as often with each level."""
    kind: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int", "default": 0}]}
    for level in range(1, levels):
        fields = [{"name": "x", "type": kind, "default": {}}, {"name": "y", "type": f"R{level - 1}", "default": {}}]
        kind = {"type": "record", "name": f"R{level}", "fields": fields}
    return {"name": "f", "type": kind, "default": {}}


def test_schemas_that_take_for_ever_to_compare_are_refused() -> None:
    small = avro({"name": "a", "type": "int"})
    assert follows(avro({"name": "a", "type": "int"}, doubling(5)), Strategy.BACKWARD, small)
    with pytest.raises(SchemaConflict, match="steps to compare"):
        check_next_version(avro({"name": "a", "type": "int"}, doubling(60)), versions(small), Strategy.BACKWARD)


@pytest.mark.parametrize("strategy", [Strategy.BACKWARD_TRANSITIVE, Strategy.FORWARD_TRANSITIVE])
def test_all_versions_of_a_check_share_one_limit(strategy: Strategy) -> None:
    """Each comparison alone would be within the limit; all versions together are not."""
    costly = avro(A_INT, doubling(12))
    old = [avro(A_INT, {"name": f"f{number}", "type": "int", "default": 0}) for number in range(1000)]
    if strategy is Strategy.FORWARD_TRANSITIVE:
        new, existing = avro(A_INT), versions(*(avro(A_INT, doubling(12)) for _ in old))
    else:
        new, existing = costly, versions(*old)
    check_next_version(new, existing[:5], strategy)
    with pytest.raises(SchemaConflict, match="more than 300000 steps to compare, the most that one check may take"):
        check_next_version(new, existing, strategy)


def test_consumers_must_read_the_latest_or_with_some_strategies_all() -> None:
    old, new = avro(A_INT, B_REQUIRED), avro(A_INT)
    check_consumer(avro(A_INT), versions(old, new), Strategy.FULL)
    with pytest.raises(SchemaConflict):
        check_consumer(old, versions(old, new), Strategy.FORWARD)
    with pytest.raises(SchemaConflict):
        check_consumer(avro(A_INT, {**B_REQUIRED, "type": "int"}), versions(new, old), Strategy.FULL)
    check_consumer(old, versions(old, new), Strategy.ALWAYS_COMPATIBLE)
    with pytest.raises(SchemaConflict, match="does not have schema"):
        check_consumer(old, [], Strategy.FULL)


def test_a_version_is_found_by_meaning_and_type() -> None:
    spaced = Schema(SchemaType.AVRO, json.dumps(json.loads(avro(A_INT).data), indent=3).encode())
    stored = versions(avro(A_INT, B_OPTIONAL), avro(A_INT))
    assert version_of(spaced, stored) == 1
    assert version_of(avro(A_INT, kind=SchemaType.JSON), stored) is None
    assert version_of(avro(B_REQUIRED), stored) is None
    assert version_of(Schema(SchemaType.STRING), versions(Schema(SchemaType.INT8), Schema(SchemaType.STRING))) == 1


def test_old_json_schemas_are_tolerated() -> None:
    def old(schema_id: str) -> Schema:
        return Schema(SchemaType.JSON, json.dumps({"type": "object", "id": schema_id, "properties": {}}).encode())

    validate(old("a"))
    new = avro(A_INT, kind=SchemaType.JSON)
    assert follows(new, Strategy.FULL, old("a"))
    assert follows(old("a"), Strategy.FULL, new)
    assert follows(old("a"), Strategy.FULL, old("a"))
    assert not follows(old("b"), Strategy.FULL, old("a"))


# --- key-value --------------------------------------------------------------------------------------------------------


def key_value(key: Schema, value: Schema) -> Schema:
    properties = {"key.schema.type": key.type.name, "value.schema.type": value.type.name}
    return Schema(SchemaType.KEY_VALUE, join_key_value(key.data, value.data), properties)


def test_both_halves_of_a_key_value_schema_are_checked() -> None:
    string = Schema(SchemaType.STRING)
    old = key_value(string, avro(A_INT))
    assert follows(key_value(string, avro(A_INT, B_OPTIONAL)), Strategy.FULL, old)
    assert not follows(key_value(string, avro(A_INT, B_REQUIRED)), Strategy.FULL, old)
    assert not follows(key_value(avro(B_REQUIRED), string), Strategy.FULL, key_value(avro(A_INT), string))
    with pytest.raises(SchemaConflict, match="from key schema type is STRING and to key schema is INT32"):
        check_next_version(key_value(Schema(SchemaType.INT32), avro(A_INT)), versions(old), Strategy.FULL)


def test_a_captured_key_value_schema_splits() -> None:
    entry = next(item for item in load("pulsar_entries.json") if item.get("of") == "public/default/jkv")
    from pulsar_proto.pb import managed_ledger_pb2 as records

    data = records.SchemaEntry.FromString(unhex(entry["hex"])).schema_data
    schema = schema_of_record(data)
    validate(schema)
    assert schema_of_record(schema_to_record("public/default/jkv", schema)) == schema
    for half in split_key_value(schema):
        assert half.type is SchemaType.JSON
        assert half.properties["__alwaysAllowNull"] == "true"
        assert json.loads(half.data)["name"] == "J"


def test_key_value_schemas_in_rest_form() -> None:
    schema = key_value(Schema(SchemaType.STRING), avro(A_INT))
    text = key_value_to_json(schema)
    assert json.loads(text) == {"key": "", "value": json.loads(avro(A_INT).data)}
    assert split_key_value(Schema(SchemaType.KEY_VALUE, key_value_of_json(text), schema.properties))[1].type is (
        SchemaType.AVRO
    )
    for bad in ("", "5", "{}", '{"key": ""}'):
        with pytest.raises(InvalidSchema):
            key_value_of_json(bad)


# --- protobuf native --------------------------------------------------------------------------------------------------


def protobuf(root: str = "p.M", files: list[descriptors.FileDescriptorProto] | None = None) -> Schema:
    common = descriptors.FileDescriptorProto(name="common.proto", package="p")
    common.message_type.add(name="C")
    main = descriptors.FileDescriptorProto(name="main.proto", package="p", dependency=["common.proto"])
    for name in ("M", "N"):
        main.message_type.add(name=name).field.add(name="c", number=1, type=11, label=1, type_name=".p.C")
    found = descriptors.FileDescriptorSet(file=[main, common] if files is None else files)
    tree = {
        "fileDescriptorSet": b64encode(found.SerializeToString()).decode(),
        "rootMessageTypeName": root,
        "rootFileDescriptorName": "main.proto",
    }
    return Schema(SchemaType.PROTOBUF_NATIVE, json.dumps(tree).encode())


def test_a_protobuf_schema_keeps_its_root_message() -> None:
    validate(protobuf())
    assert follows(protobuf(), Strategy.FULL, Schema(SchemaType.PROTOBUF_NATIVE, protobuf().data + b" "))
    with pytest.raises(SchemaConflict, match=r"Original message name: 'p\.M', new message name: 'p\.N'"):
        check_next_version(protobuf("p.N"), versions(protobuf()), Strategy.BACKWARD)
    assert not follows(protobuf("p.N"), Strategy.ALWAYS_INCOMPATIBLE, protobuf())


# --- definitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (Schema(SchemaType.AVRO, b"{bad"), "Invalid schema definition data for AVRO schema"),
        (Schema(SchemaType.AVRO, b""), "Invalid schema definition data for AVRO schema"),
        (Schema(SchemaType.JSON, b"5"), "Invalid schema definition data for JSON schema"),
        (Schema(SchemaType.AVRO, b'["null"]'), r"Avro schema typed \[UNION\] is not supported"),
        (Schema(SchemaType.STRING, b"x"), "Invalid schema definition data for string schema : 'x'"),
        (Schema(SchemaType.INT8, b"xy"), "should be zero, but 2 bytes is found"),
        (Schema(SchemaType.AUTO_CONSUME), "is a client-side schema type"),
        (Schema(SchemaType.KEY_VALUE, b"\0\0"), "key's schema is missing"),
        (Schema(SchemaType.KEY_VALUE, b"\0\0\0\x09x"), "reaches beyond"),
        (Schema(SchemaType.KEY_VALUE, join_key_value(b"x", b""), {"key.schema.type": "INT8"}), "should be zero"),
        (Schema(SchemaType.KEY_VALUE, join_key_value(b"", b""), {"key.schema.type": "Q"}), "Unknown schema type: Q"),
        (Schema(SchemaType.PROTOBUF_NATIVE, b"{}"), "deserialize ProtobufNative Schema failed"),
        (protobuf("p.X"), "deserialize ProtobufNative Schema failed"),
        (protobuf(files=[]), "deserialize ProtobufNative Schema failed"),
        (Schema(SchemaType.NONE, b"x" * (DATA_BYTES_MAX + 1)), "at most"),
    ],
)
def test_definitions_that_are_none_of_their_type(schema: Schema, text: str) -> None:
    with pytest.raises(InvalidSchema, match=text):
        validate(schema)


def test_types_by_name() -> None:
    assert type_named("avro") is SchemaType.AVRO
    assert type_named("BYTES") is SchemaType.NONE
    with pytest.raises(InvalidSchema, match="Unknown schema type: BAD"):
        type_named("BAD")
