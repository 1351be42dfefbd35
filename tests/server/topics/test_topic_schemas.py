"""Which schemas a topic admits for producers and consumers, by its policies and by who uses the topic already."""

from dataclasses import dataclass, field, replace

import pytest

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_storage import SchemaStorage
from magnetar.server.schema.schema_types import SchemaType
from magnetar.server.topics.topic_schemas import SCHEMA_NEEDED, TopicSchemas
from pulsar_proto.errors import IncompatibleSchema, MetadataFault
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.storage.managed.fake_bookkeeper import World

AVRO = pb.Schema(name="s", type=pb.Schema.Avro, schema_data=b'{"type":"record","name":"A","fields":[]}')
ANOTHER = pb.Schema(
    name="s", type=pb.Schema.Avro, schema_data=b'{"type":"record","name":"A","fields":[{"name":"q","type":"int"}]}'
)
STRING = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")
BYTES = pb.Schema(name="s", type=getattr(pb.Schema, "None"), schema_data=b"")
AUTO_CONSUME = pb.Schema(name="AutoConsume", type=pb.Schema.AutoConsume, schema_data=b"")


@dataclass
class FakeTopic:
    name: TopicName = field(default_factory=lambda: TopicName.parse("persistent://public/default/t"))
    policies: EffectivePolicies = field(default_factory=EffectivePolicies)
    producers: dict[str, object] = field(default_factory=dict)
    consumers_with_schema: int = 0
    stored_bytes: int = 0


class Scene:
    def __init__(self, **policies: object) -> None:
        self.world = World()
        session = self.world.session()
        self.registry = SchemaRegistry(SchemaStorage(session.metadata(), session.as_client(), (1, 1, 1)), lambda: 1)
        self.schemas = TopicSchemas(self.registry)
        self.topic = FakeTopic(policies=replace(EffectivePolicies(), **policies))  # type: ignore[arg-type]

    async def versions(self) -> list[int]:
        return [each.version for each in await self.registry.versions(self.topic.name.schema_id)]


async def test_a_producer_gets_its_schemas_version() -> None:
    scene = Scene()
    assert await scene.schemas.admit_producer(scene.topic, AVRO) == bytes(8)
    assert await scene.schemas.admit_producer(scene.topic, AVRO) == bytes(8)
    for none in (None, AUTO_CONSUME):
        assert await scene.schemas.admit_producer(scene.topic, none) == b""
    assert await scene.versions() == [0]


async def test_bytes_that_are_said_are_a_schema_like_any_other() -> None:
    """The Go client declares BYTES as a schema and then asks for its version; seen with Apache 4.0.7."""
    scene = Scene()
    assert await scene.schemas.admit_producer(scene.topic, BYTES) == bytes(8)
    stored = await scene.registry.version(scene.topic.name.schema_id, 0)
    assert stored is not None
    assert stored.schema.type is SchemaType.NONE
    await scene.schemas.admit_consumer(scene.topic, BYTES)
    with pytest.raises(IncompatibleSchema, match="exists schema type NONE, new schema type STRING"):
        await scene.schemas.admit_producer(scene.topic, STRING)
    assert await scene.versions() == [0]


async def test_said_bytes_do_not_fit_another_schema() -> None:
    scene = Scene()
    await scene.schemas.admit_producer(scene.topic, STRING)
    for admit in (scene.schemas.admit_producer, scene.schemas.admit_consumer):
        with pytest.raises(IncompatibleSchema, match="exists schema type STRING, new schema type NONE"):
            await admit(scene.topic, BYTES)


async def test_producers_are_refused_in_the_words_of_a_capture() -> None:
    """The words come from the capture `java, run 2: newMessage(incompatible AVRO) on an open producer`."""
    scene = Scene()
    await scene.schemas.admit_producer(scene.topic, AVRO)
    reason = (
        "org.apache.pulsar.broker.service.schema.exceptions.IncompatibleSchemaException: Incompatible schema: exists "
        "schema type AVRO, new schema type STRING"
    )
    with pytest.raises(IncompatibleSchema) as caught:
        await scene.schemas.admit_producer(scene.topic, STRING)
    assert caught.value.message == f"{reason} caused by {reason}"
    with pytest.raises(IncompatibleSchema, match="InvalidSchemaDataException"):
        await scene.schemas.admit_producer(scene.topic, pb.Schema(name="", type=pb.Schema.Avro, schema_data=b"{"))


async def test_partitions_share_their_topics_schema() -> None:
    scene = Scene()
    await scene.schemas.admit_producer(scene.topic, AVRO)
    partition = FakeTopic(name=scene.topic.name.partition(3))
    with pytest.raises(IncompatibleSchema):
        await scene.schemas.admit_producer(partition, STRING)


async def test_the_first_consumer_of_an_idle_topic_brings_its_schema() -> None:
    scene = Scene()
    await scene.schemas.admit_consumer(scene.topic, AVRO)
    assert await scene.versions() == [0]
    await scene.schemas.admit_consumer(scene.topic, AVRO)
    with pytest.raises(
        IncompatibleSchema, match=r"^Incompatible schema: exists schema type AVRO, new schema type STRING"
    ):
        await scene.schemas.admit_consumer(scene.topic, STRING)
    with pytest.raises(IncompatibleSchema, match="Unable to read schema"):
        await scene.schemas.admit_consumer(scene.topic, ANOTHER)
    assert await scene.versions() == [0]


@pytest.mark.parametrize("use", [{"producers": {"p": 1}}, {"consumers_with_schema": 1}, {"stored_bytes": 9}])
async def test_a_schema_does_not_come_to_a_topic_that_is_in_use(use: dict[str, object]) -> None:
    scene = Scene()
    for name, value in use.items():
        setattr(scene.topic, name, value)
    with pytest.raises(IncompatibleSchema, match=r"active topic with empty\(BYTES\) schema: new schema type AVRO"):
        await scene.schemas.admit_consumer(scene.topic, AVRO)
    for none in (None, AUTO_CONSUME):
        await scene.schemas.admit_consumer(scene.topic, none)
    scene.topic.policies = replace(scene.topic.policies, schema_compatibility_strategy="ALWAYS_COMPATIBLE")
    await scene.schemas.admit_consumer(scene.topic, AVRO)
    assert await scene.versions() == []


async def test_without_auto_update_only_known_schemas_are_taken() -> None:
    scene = Scene(is_allow_auto_update_schema=False)
    with pytest.raises(IncompatibleSchema, match="Schema not found and schema auto updating is disabled"):
        await scene.schemas.admit_producer(scene.topic, AVRO)
    scene.topic.policies = replace(scene.topic.policies, is_allow_auto_update_schema=True)
    await scene.schemas.admit_producer(scene.topic, AVRO)
    scene.topic.policies = replace(scene.topic.policies, is_allow_auto_update_schema=False)
    assert await scene.schemas.admit_producer(scene.topic, AVRO) == bytes(8)


async def test_a_schema_can_be_demanded_of_producers() -> None:
    scene = Scene(schema_validation_enforced=True)
    assert await scene.schemas.admit_producer(scene.topic, None) == b""
    await scene.schemas.admit_producer(scene.topic, AVRO)
    with pytest.raises(IncompatibleSchema) as caught:
        await scene.schemas.admit_producer(scene.topic, None)
    assert SCHEMA_NEEDED in caught.value.message


async def test_faults_of_the_storage_are_told_as_such() -> None:
    scene = Scene()
    session = scene.world.session()
    await session.metadata().create("/schemas/public/default/t", b"\xff", make_parents=True)
    with pytest.raises(MetadataFault):
        await scene.schemas.admit_producer(scene.topic, AVRO)


async def test_deleting_a_topic_leaves_no_schema() -> None:
    scene = Scene()
    await scene.schemas.admit_producer(scene.topic, AVRO)
    (shown,) = await scene.schemas.ledgers(scene.topic.name)
    assert (shown["offloaded"], shown["underReplicated"]) == (False, False)
    await scene.schemas.delete(scene.topic.name)
    assert await scene.schemas.ledgers(scene.topic.name) == []
    assert scene.world.ledgers == {}


async def test_what_is_counted() -> None:
    scene = Scene()
    await scene.schemas.admit_producer(scene.topic, AVRO)
    with pytest.raises(IncompatibleSchema):
        await scene.schemas.admit_producer(scene.topic, STRING)
    counters = scene.registry.counters
    assert counters.operations["put", "public/default"].count == 1
    assert counters.verdicts == {("incompatible", "public/default"): 1}
