"""The calls on schemas of topics. A schema may be stored before its topic exists, so these calls do not look for the
topic.

Sources: SchemasResource, SchemasResourceBase; answers recorded from Pulsar 4.0.7. Apache answers a wrong request with
500 and a stack trace, or with a page of HTML; these calls answer 4xx with a reason. For an incompatible schema,
Apache's call `/compatibility` fails; here it answers that the schema is incompatible.
"""

from functools import wraps
from typing import Any

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import topic_of
from magnetar.server.schema.key_value import key_value_of_json, key_value_to_json
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_storage import SchemaStorageFault
from magnetar.server.schema.schema_types import (
    InvalidSchema,
    Schema,
    SchemaConflict,
    SchemaType,
    StoredSchema,
    type_named,
)
from magnetar.server.schema.strategies import CompatibilityStrategy
from magnetar.server.web.calls import EMPTY, Answer, Call, Handler, Refusal, Route, Status
from magnetar.server.web.needs import TENANT_ADMIN, topic
from magnetar.server.web.places import Place
from pulsar_proto.errors import MetadataFault
from pulsar_proto.pb import managed_ledger_pb2 as records

SCHEMAS = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"


def _told(handler: Handler) -> Handler:
    """Wraps a handler, so that errors of schemas become a Refusal, and errors of their storage a MetadataFault."""

    @wraps(handler)
    async def run(call: Call) -> Answer:
        try:
            return await handler(call)
        except SchemaConflict as error:
            raise Refusal(409, str(error)) from error
        except InvalidSchema as error:
            raise Refusal(422, str(error)) from error
        except SchemaStorageFault as error:
            raise MetadataFault(str(error)) from error

    return run


def _registry(call: Call) -> SchemaRegistry:
    return call.broker.service.schemas.registry


@_told
async def latest(call: Call) -> Answer:
    return _shown(await _registry(call).latest(topic_of(call).schema_id))


@_told
async def by_version(call: Call) -> Answer:
    text = call.parts["version"]
    if not text.lstrip("-").isdecimal() or len(text) > 19:
        raise Refusal(400, f"A schema version is a number, not {text!r}")
    return _shown(await _registry(call).version(topic_of(call).schema_id, int(text)))


@_told
async def versions(call: Call) -> Answer:
    found = await _registry(call).versions(topic_of(call).schema_id)
    return {"getSchemaResponses": [_shown(each) for each in found]}


@_told
async def metadata(call: Call) -> Answer:
    """Answers with the places where the versions of a schema are stored, or without a body when there is no schema."""
    locator = await _registry(call).locate(topic_of(call).schema_id)
    if locator is None:
        return EMPTY
    return {"info": _place(locator.record.info), "index": [_place(each) for each in locator.record.index]}


@_told
async def post(call: Call) -> Answer:
    name = topic_of(call)
    schema = _schema_of(call)
    await call.broker.service.catalog.check_namespace(name.namespace)
    strategy = await _strategy(call)
    return {"version": {"version": await _registry(call).put(name.schema_id, schema, strategy)}}


@_told
async def delete(call: Call) -> Answer:
    """Deletes a schema by adding a version that says so. With the parameter `force` all versions are deleted from the
    storage."""
    name = topic_of(call)
    await call.broker.service.catalog.check_namespace(name.namespace)
    registry = _registry(call)
    force = call.flag("force")
    version = await (registry.delete_storage(name.schema_id) if force else registry.delete(name.schema_id))
    return {"version": version}


@_told
async def compatibility(call: Call) -> Answer:
    schema, strategy = _schema_of(call), await _strategy(call)
    is_compatible = True
    try:
        await _registry(call).check_compatible(topic_of(call).schema_id, schema, strategy)
    except SchemaConflict:
        is_compatible = False
    return Status(202, {"schemaCompatibilityStrategy": strategy.value, "compatibility": is_compatible})


@_told
async def find_version(call: Call) -> Answer:
    return {"version": await _registry(call).find_version(topic_of(call).schema_id, _schema_of(call))}


async def _strategy(call: Call) -> CompatibilityStrategy:
    name, policies = topic_of(call), call.broker.service.policies
    await policies.load(name)
    return CompatibilityStrategy(policies.of(name).schema_compatibility_strategy)


def _schema_of(call: Call) -> Schema:
    """Returns the schema in a body `{type, schema, properties}`. Raises Refusal, InvalidSchema."""
    payload = bodies.obj(bodies.present(bodies.parse(call.body)))
    schema_type = type_named(bodies.text(payload.get("type"), "type"))
    definition = bodies.text(payload.get("schema"), "schema")
    data = key_value_of_json(definition) if schema_type is SchemaType.KEY_VALUE else definition.encode()
    properties = payload.get("properties")
    return Schema(schema_type, data, {} if properties is None else bodies.string_map(properties, "properties"))


def _shown(stored: StoredSchema | None) -> dict[str, Any]:
    """Returns a schema in the form in which calls answer it. Raises Refusal 404 when `stored` is None."""
    if stored is None:
        raise Refusal(404, "Schema not found")
    schema = stored.schema
    is_pair = schema.type is SchemaType.KEY_VALUE
    return {
        "version": stored.version,
        "type": schema.type.name,
        "timestamp": schema.timestamp_ms,
        "data": key_value_to_json(schema) if is_pair else schema.data.decode(errors="replace"),
        "properties": dict(schema.properties),
    }


def _place(entry: records.SchemaIndexEntry) -> dict[str, int]:
    return {"ledgerId": entry.position.ledgerId, "entryId": entry.position.entryId, "version": entry.version}


ROUTES = (
    Route("GET", f"{SCHEMAS}/schema", latest, topic("GET_METADATA"), Place.TOPIC),
    Route("GET", f"{SCHEMAS}/schema/{{version}}", by_version, topic("GET_METADATA"), Place.TOPIC),
    Route("GET", f"{SCHEMAS}/schemas", versions, topic("GET_METADATA"), Place.TOPIC),
    Route("GET", f"{SCHEMAS}/metadata", metadata, topic("GET_METADATA"), Place.TOPIC),
    Route("POST", f"{SCHEMAS}/schema", post, topic("PRODUCE"), Place.TOPIC),
    Route("DELETE", f"{SCHEMAS}/schema", delete, TENANT_ADMIN, Place.TOPIC),
    Route("POST", f"{SCHEMAS}/compatibility", compatibility, TENANT_ADMIN, Place.TOPIC),
    Route("POST", f"{SCHEMAS}/version", find_version, topic("GET_METADATA"), Place.TOPIC),
)
