"""Decides whether a schema may follow the older schemas of a topic, by strategy and type, and whether a schema equals
one of the older schemas.

The error texts are Java's, because applications show them. Sources: SchemaRegistryServiceImpl,
AvroSchemaBasedCompatibilityCheck, JsonSchemaCompatibilityCheck, KeyValueSchemaCompatibilityCheck,
ProtobufNativeSchemaCompatibilityCheck, 4.0.7.
"""

from collections.abc import Sequence

from magnetar.server.schema.avro_resolution_rules import StepBudget, TooCostly, can_read
from magnetar.server.schema.avro_schema import AvroParseError, AvroSchema, parse_avro, pretty, same_schema
from magnetar.server.schema.definition_rules import avro_of, is_json_schema, json_schema_id
from magnetar.server.schema.key_value import split_key_value
from magnetar.server.schema.protobuf_native import root_message_name
from magnetar.server.schema.schema_types import (
    AVRO_BASED,
    InvalidSchema,
    Schema,
    SchemaConflict,
    SchemaType,
    StoredSchema,
)
from magnetar.server.schema.strategies import CompatibilityStrategy

_READS_OLD = frozenset(
    (
        CompatibilityStrategy.BACKWARD,
        CompatibilityStrategy.BACKWARD_TRANSITIVE,
        CompatibilityStrategy.FULL,
        CompatibilityStrategy.FULL_TRANSITIVE,
    )
)
"""Strategies by which a new schema must read data that was written with old schemas."""
_READ_BY_OLD = frozenset(
    (
        CompatibilityStrategy.FORWARD,
        CompatibilityStrategy.FORWARD_TRANSITIVE,
        CompatibilityStrategy.FULL,
        CompatibilityStrategy.FULL_TRANSITIVE,
    )
)
"""Strategies by which old schemas must read data that is written with a new schema."""
_OF_LATEST_FOR_CONSUMERS = frozenset(
    (
        CompatibilityStrategy.BACKWARD,
        CompatibilityStrategy.FORWARD,
        CompatibilityStrategy.FORWARD_TRANSITIVE,
        CompatibilityStrategy.FULL,
    )
)
"""Strategies by which a consumer's schema is compared with the latest version only."""


def version_of(schema: Schema, versions: Sequence[StoredSchema]) -> int | None:
    """Returns the version whose schema equals `schema`, or None when there is no such version. Avro definitions are
    compared as Avro schemas, other definitions by their bytes."""
    of_type = [stored for stored in versions if stored.schema.type is schema.type]
    for stored in of_type:
        if _same_definition(stored.schema, schema):
            return stored.version
    avro = avro_of(schema) if schema.type in AVRO_BASED else None
    if avro is None:
        return None
    for stored in of_type:
        other = avro_of(stored.schema)
        if other is not None and same_schema(avro, other):
            return stored.version
    return None


def _same_definition(one: Schema, other: Schema) -> bool:
    """Whether two schemas of one type have the same definition. For key-value schemas the types of key and value, which
    are properties, must be equal too; Apache's broker compares only the definitions."""
    if one.type is SchemaType.KEY_VALUE:
        for name in ("key.schema.type", "value.schema.type"):
            if one.properties.get(name) != other.properties.get(name):
                return False
    return one.data == other.data


def check_next_version(schema: Schema, versions: Sequence[StoredSchema], strategy: CompatibilityStrategy) -> None:
    """Checks that `schema` may be added after `versions`, which are the versions since the last deletion, in order.
    Raises SchemaConflict when the schema may not be added."""
    if strategy is CompatibilityStrategy.ALWAYS_COMPATIBLE or not versions:
        return
    if strategy.is_transitive:
        _check_all(schema, [stored.schema for stored in versions], strategy)
    else:
        _check_latest(schema, versions[-1].schema, strategy)


def check_consumer(schema: Schema, versions: Sequence[StoredSchema], strategy: CompatibilityStrategy) -> None:
    """Checks that a consumer's schema can read data of the stored versions, as the strategy requires. Raises
    SchemaConflict when the schema cannot read such data or there are no versions."""
    if strategy is CompatibilityStrategy.ALWAYS_COMPATIBLE:
        return
    if not versions:
        raise SchemaConflict("Topic does not have schema to check")
    if strategy in _OF_LATEST_FOR_CONSUMERS:
        _check_latest(schema, versions[-1].schema, CompatibilityStrategy.BACKWARD)
    else:
        _check_all(schema, [stored.schema for stored in versions], strategy)


def _check_latest(schema: Schema, latest: Schema, strategy: CompatibilityStrategy) -> None:
    _check_type(schema, latest)
    if not _same_definition(schema, latest):
        _check(schema, [latest], strategy, StepBudget())


def _check_all(schema: Schema, existing: Sequence[Schema], strategy: CompatibilityStrategy) -> None:
    for each in existing:
        _check_type(schema, each)
    _check(schema, existing, strategy, StepBudget())


def _check_type(schema: Schema, existing: Schema) -> None:
    if schema.type is not existing.type:
        raise SchemaConflict(
            f"Incompatible schema: exists schema type {existing.type.name}, new schema type {schema.type.name}"
        )


def _check(schema: Schema, existing: Sequence[Schema], strategy: CompatibilityStrategy, steps: StepBudget) -> None:
    """Checks a schema against existing schemas of the schema's type, which are ordered from the oldest on. All
    comparisons take their steps from `steps`. Raises SchemaConflict when the schemas are not compatible."""
    try:
        match schema.type:
            case SchemaType.AVRO | SchemaType.PROTOBUF:
                _check_avro(schema, existing, strategy, steps)
            case SchemaType.JSON:
                _check_json(schema, existing, strategy, steps)
            case SchemaType.PROTOBUF_NATIVE:
                _check_protobuf_native(schema, existing, strategy)
            case SchemaType.KEY_VALUE:
                _check_key_value(schema, existing, strategy, steps)
            case _ if strategy is CompatibilityStrategy.ALWAYS_INCOMPATIBLE:
                raise SchemaConflict("Schema compatibility strategy is ALWAYS_INCOMPATIBLE")
    except InvalidSchema as error:
        raise SchemaConflict(str(error)) from error


def _check_avro(schema: Schema, existing: Sequence[Schema], strategy: CompatibilityStrategy, steps: StepBudget) -> None:
    try:
        new = parse_avro(schema.data)
        # The newest schema comes first: a strategy that is not transitive compares only with the newest schema.
        old = [parse_avro(each.data) for each in reversed(existing)]
    except AvroParseError as error:
        raise SchemaConflict(f"org.apache.avro.SchemaParseException: {error}") from error
    for each in old if strategy.is_transitive else old[:1]:
        if strategy is CompatibilityStrategy.ALWAYS_INCOMPATIBLE:
            raise _cannot_read(new, new, strategy)
        try:
            if strategy in _READ_BY_OLD and not can_read(new, each, steps):
                raise _cannot_read(new, each, strategy)
            if strategy in _READS_OLD and not can_read(each, new, steps):
                raise _cannot_read(each, new, strategy)
        except TooCostly as error:
            raise SchemaConflict(f"The schema cannot be compared with the topic's: {error}") from error


def _cannot_read(writer: AvroSchema, reader: AvroSchema, strategy: CompatibilityStrategy) -> SchemaConflict:
    return SchemaConflict(
        f"Error during schema compatibility check with strategy {strategy.value}: "
        f"org.apache.avro.SchemaValidationException: Unable to read schema: \n{pretty(writer)}\nusing schema:\n"
        f"{pretty(reader)}"
    )


def _check_json(schema: Schema, existing: Sequence[Schema], strategy: CompatibilityStrategy, steps: StepBudget) -> None:
    """Checks a schema of type JSON. The definition is an Avro schema today, but clients before 2.1 sent JSON schemas; a
    change from either form to the other is allowed."""
    is_avro = avro_of(schema) is not None
    if not is_avro and not is_json_schema(schema):
        raise SchemaConflict("Unknown schema format")
    if is_avro:
        avro_based = [each for each in existing if avro_of(each) is not None]
        if avro_based:
            _check_avro(schema, avro_based, strategy, steps)
        return
    for each in existing:
        if avro_of(each) is None and is_json_schema(each) and json_schema_id(each) != json_schema_id(schema):
            raise SchemaConflict(
                f"Incompatible Schema from {each.data.decode(errors='replace')} + to "
                f"{schema.data.decode(errors='replace')}"
            )


def _check_protobuf_native(schema: Schema, existing: Sequence[Schema], strategy: CompatibilityStrategy) -> None:
    """Checks that the name of the root message does not change. Other changes are not checked, because protobuf has its
    own rules for them."""
    if strategy not in _READS_OLD | _READ_BY_OLD:
        raise SchemaConflict("Unknown SchemaCompatibilityStrategy.")
    new = root_message_name(schema.data)
    for each in existing:
        old = root_message_name(each.data)
        if old != new:
            raise SchemaConflict(
                f"Protobuf root message change is not allowed under the '{strategy.value}' strategy. Original message "
                f"name: '{old}', new message name: '{new}'."
            )


def _check_key_value(
    schema: Schema, existing: Sequence[Schema], strategy: CompatibilityStrategy, steps: StepBudget
) -> None:
    key, value = split_key_value(schema)
    keys, values = [], []
    for each in existing:
        old_key, old_value = split_key_value(each)
        if old_key.type is not key.type or old_value.type is not value.type:
            raise SchemaConflict(
                "Key schemas or Value schemas are different schema type, from key schema type is "
                f"{old_key.type.name} and to key schema is {key.type.name}, from value schema is "
                f"{old_value.type.name} and to value schema is {value.type.name}"
            )
        keys.append(old_key)
        values.append(old_value)
    _check(key, keys, strategy, steps)
    _check(value, values, strategy, steps)
