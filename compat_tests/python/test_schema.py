"""Schemas with the official client: registered, evolved, refused, and found again after a kill."""

import json
import urllib.error
import urllib.request
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String, StringSchema

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server

INCOMPATIBLE = (pulsar.IncompatibleSchema,)


class User(Record):  # type: ignore[misc]
    name = String()
    age = Integer()


class UserWithCity(Record):  # type: ignore[misc]
    """One more field, which is optional, so that both versions are compatible with each other."""

    name = String()
    age = Integer()
    city = String(default="", required_default=True)


class Other(Record):  # type: ignore[misc]
    key = Integer(required=True)


UserWithCity.__name__ = "User"


@pytest.mark.parametrize("schema", [AvroSchema, JsonSchema], ids=["avro", "json"])
def test_records_arrive(client: pulsar.Client, topic: str, schema: Any) -> None:
    consumer = client.subscribe(topic, "s", schema=schema(User))
    producer = client.create_producer(topic, schema=schema(User))
    producer.send(User(name="ada", age=36))
    value = consumer.receive(60_000).value()
    assert (value.name, value.age) == ("ada", 36)


@pytest.mark.parametrize("schema", [AvroSchema, JsonSchema], ids=["avro", "json"])
def test_a_compatible_schema_becomes_the_next_version_and_both_are_read(
    client: pulsar.Client, topic: str, schema: Any
) -> None:
    old = client.create_producer(topic, schema=schema(User))
    consumer = client.subscribe(
        topic, "s", schema=schema(UserWithCity), initial_position=pulsar.InitialPosition.Earliest
    )
    old.send(User(name="ada", age=36))
    new = client.create_producer(topic, schema=schema(UserWithCity))
    new.send(UserWithCity(name="bob", age=40, city="paris"))
    names = [consumer.receive(60_000).value().name for _ in range(2)]
    assert names == ["ada", "bob"]


def test_an_incompatible_schema_is_refused(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, schema=AvroSchema(User))
    with pytest.raises(INCOMPATIBLE):
        client.create_producer(topic, schema=AvroSchema(Other))
    with pytest.raises(INCOMPATIBLE):
        client.create_producer(topic, schema=StringSchema())
    with pytest.raises(INCOMPATIBLE):
        client.subscribe(topic, "s", schema=AvroSchema(Other))
    with pytest.raises(INCOMPATIBLE):
        client.subscribe(topic, "s", schema=JsonSchema(User))
    client.create_producer(topic).send(b"bytes are always taken")
    client.subscribe(topic, "s")
    client.subscribe(topic, "s2", schema=AvroSchema(User))


def test_a_schema_cannot_be_put_on_bytes(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic).send(b"x")
    with pytest.raises(INCOMPATIBLE):
        client.subscribe(topic, "s", schema=AvroSchema(User))


def test_schemas_survive_a_kill(own_server: Server, make_client: ClientFactory, topic: str) -> None:
    make_client(own_server.broker_url).create_producer(topic, schema=AvroSchema(User))
    own_server.kill()
    own_server.start()
    client = make_client(own_server.broker_url)
    with pytest.raises(INCOMPATIBLE):
        client.create_producer(topic, schema=AvroSchema(Other))
    producer = client.create_producer(topic, schema=AvroSchema(User))
    consumer = client.subscribe(topic, "s", schema=AvroSchema(User))
    producer.send(User(name="ada", age=36))
    assert consumer.receive(60_000).value().age == 36


@pytest.mark.parametrize(
    ("settings", "may_evolve", "may_be_other"),
    [
        ({"schemaCompatibilityStrategy": "ALWAYS_COMPATIBLE"}, True, True),
        ({"schemaCompatibilityStrategy": "ALWAYS_INCOMPATIBLE"}, False, False),
        ({"schemaCompatibilityStrategy": "FORWARD_TRANSITIVE"}, True, False),
    ],
    ids=["always", "never", "forward"],
)
def test_broker_conf_says_what_may_follow(
    make_server: ServerFactory,
    make_client: ClientFactory,
    topic: str,
    settings: dict[str, str],
    may_evolve: bool,
    may_be_other: bool,
) -> None:
    server = make_server(settings=settings)
    server.start()
    client = make_client(server.broker_url)

    def admitted(schema: Any) -> bool:
        try:
            client.create_producer(topic, schema=schema).close()
        except pulsar.IncompatibleSchema:
            return False
        return True

    assert admitted(AvroSchema(User))
    assert admitted(AvroSchema(User))
    assert admitted(AvroSchema(UserWithCity)) == may_evolve
    assert admitted(AvroSchema(Other)) == may_be_other


def test_schemas_can_be_demanded(make_server: ServerFactory, make_client: ClientFactory, topic: str) -> None:
    server = make_server(settings={"isSchemaValidationEnforced": "true"})
    server.start()
    client = make_client(server.broker_url)
    client.create_producer(topic + "-plain").send(b"a topic without schema needs none")
    client.create_producer(topic, schema=AvroSchema(User))
    with pytest.raises(INCOMPATIBLE):
        client.create_producer(topic)


class Rest:
    """The schema calls for one topic."""

    def __init__(self, server: Server, topic: str) -> None:
        self._web_url = server.web_url
        self._topic = topic.removeprefix("persistent://")

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self._call(method, f"schemas/{self._topic}/{path}", body)

    def policy(self, method: str, name: str, body: Any) -> None:
        namespace = self._topic.rpartition("/")[0]
        assert self._call(method, f"namespaces/{namespace}/{name}", body)[0] == 204

    def _call(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self._web_url}/admin/v2/{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")


def definition(schema: Any) -> dict[str, Any]:
    return {"type": "AVRO", "schema": schema.schema_info().schema(), "properties": {}}


def test_schemas_over_rest(server: Server, client: pulsar.Client, topic: str) -> None:
    rest = Rest(server, topic)
    user, city, other = (definition(AvroSchema(record)) for record in (User, UserWithCity, Other))
    assert rest.call("GET", "schema") == (404, {"reason": "Schema not found"})
    assert rest.call("POST", "schema", user) == (200, {"version": {"version": 0}})
    client.create_producer(topic, schema=AvroSchema(UserWithCity))
    assert rest.call("POST", "schema", city) == (200, {"version": {"version": 1}})
    code, latest = rest.call("GET", "schema")
    assert (code, latest["version"], latest["type"], json.loads(latest["data"])["name"]) == (200, 1, "AVRO", "User")
    assert rest.call("GET", "schema/0")[1]["data"] == user["schema"]
    assert rest.call("GET", "schema/7")[0] == 404
    assert [each["version"] for each in rest.call("GET", "schemas")[1]["getSchemaResponses"]] == [0, 1]
    code, refused = rest.call("POST", "schema", other)
    assert code == 409
    assert "Unable to read schema" in refused["reason"]
    assert rest.call("POST", "schema", {**user, "schema": "{bad"})[0] == 422
    assert rest.call("POST", "compatibility", user) == (
        202,
        {"schemaCompatibilityStrategy": "FULL", "compatibility": True},
    )
    assert rest.call("POST", "compatibility", other)[1]["compatibility"] is False
    assert rest.call("POST", "version", city) == (200, {"version": 1})
    assert rest.call("POST", "version", other) == (200, {"version": -1})
    assert [each["version"] for each in rest.call("GET", "metadata")[1]["index"]] == [0, 1]
    assert rest.call("DELETE", "schema") == (200, {"version": 2})
    assert rest.call("GET", "schema")[0] == 404
    client.create_producer(topic, schema=StringSchema())
    assert rest.call("GET", "schema")[1]["version"] == 3


def test_a_namespace_says_what_may_follow(server: Server, client: pulsar.Client, topic: str) -> None:
    """The namespace belongs to this test alone, because its policies are changed while clients are connected."""
    namespace = f"public/{topic.rpartition('/')[2].lower()}"
    request = urllib.request.Request(f"{server.web_url}/admin/v2/namespaces/{namespace}", method="PUT")
    urllib.request.urlopen(request, timeout=60).close()
    topic = f"persistent://{namespace}/t"
    rest = Rest(server, topic)
    client.create_producer(topic, schema=AvroSchema(User))
    rest.policy("POST", "isAllowAutoUpdateSchema", False)
    with pytest.raises(INCOMPATIBLE):
        client.create_producer(topic, schema=AvroSchema(UserWithCity))
    assert rest.call("POST", "schema", definition(AvroSchema(UserWithCity)))[0] == 200
    client.create_producer(topic, schema=AvroSchema(UserWithCity))
    rest.policy("POST", "isAllowAutoUpdateSchema", True)
    rest.policy("PUT", "schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    client.create_producer(topic, schema=AvroSchema(Other))
    rest.policy("POST", "schemaValidationEnforced", True)
    with pytest.raises(INCOMPATIBLE):
        client.create_producer(topic)
