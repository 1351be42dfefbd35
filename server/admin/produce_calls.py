"""The calls that publish over HTTP. The messages of a call are texts, which are encoded by a schema and handed to the
topic as a client's messages are. The call is answered when all of its messages are durable.

As on the binary port, the topic's policies decide who may produce, and set quotas, rates, schemas and deduplication.
The answer holds an outcome for each message, so some may be stored and others refused.

Sources: Topics, TopicsBase (publishMessages, internalPublishMessages, processPublishMessageResults); exchanges recorded
from Apache Pulsar 4.0.7. For a text that the schema does not take, Apache stores an empty message; here the message is
refused, with the reason.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from magnetar.server.admin.call_paths import topic_of
from magnetar.server.admin.http_producer import HttpProducer, Stored
from magnetar.server.admin.produce_request_rules import (
    PRODUCER_NAME,
    EncodedMessage,
    Encoders,
    ProduceRequest,
    encode_message,
    encoders_of,
    payload_of,
    read_request,
)
from magnetar.server.admin.topic_calls import check_local_cluster
from magnetar.server.broker.broker import Broker
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.process.turns import in_portions
from magnetar.server.schema.schema_storage import SchemaStorageFault
from magnetar.server.schema.schema_types import InvalidSchema, Schema, schema_to_command
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.publishing.producer import Producer, Sends
from magnetar.server.web.calls import Answer, Call, Refusal, refusal_of
from magnetar.server.web.owner_redirects import to_owner_of_topic
from pulsar_proto.errors import (
    IncompatibleSchema,
    MetadataFault,
    ProducerBusy,
    ProducerFenced,
    PulsarError,
    QuotaExceeded,
    QuotaExceededHold,
    TopicNotFound,
    TopicTerminated,
)
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import metadata_fault
from pulsar_proto.wire.send_run import Send

T = TypeVar("T")

ON_THE_LOOP_BYTES = 32 << 10
"""Bodies up to this size are read and encoded on the loop, which takes a millisecond or two; longer bodies are read and
encoded on a thread."""
RATE_WAIT_SECONDS_MAX = 5.0
"""How long a call waits for a topic's publish rate before it is refused, with nothing published."""
NO_PARTITION = -1
FAILED = 2
"""The code of every message that was not stored (TopicsBase.extractException)."""
PARTITION_NUMBER_MAX = 9
"""The largest number of digits of a partition's number."""

STATUS_OF: dict[type[PulsarError], int] = {
    ProducerBusy: 409,
    ProducerFenced: 409,
    IncompatibleSchema: 409,
    TopicTerminated: 409,
    QuotaExceeded: 503,
    QuotaExceededHold: 503,
}
"""The status of the answer when no message was published, in addition to those of `calls.STATUS_OF`."""

Part = tuple[int, EncodedMessage]
"""A message, and its place among the messages of the call."""


async def publish(call: Call) -> Answer:
    """Publishes the messages of the body to a topic, or in turn to those partitions of a partitioned topic that this
    broker owns. When this broker owns no partition, the caller is redirected to the owner of one
    (TopicsBase.findOwnerBrokerForTopic)."""
    name = topic_of(call)
    partitions = await _partitions_of(call, name)
    if partitions == 0:
        return await _publish(call, [name], create=False)
    names = [name.partition(index) for index in range(partitions)]
    here = [each for each in names if call.broker.ownership.owns(each)]
    if not here:
        here = [names[call.broker.http_publishing.first_partition(1, partitions)]]
        await to_owner_of_topic(call, here[0])
    return await _publish(call, here, create=True)


async def publish_to_partition(call: Call) -> Answer:
    """Publishes the messages of the body to one partition."""
    name, text = topic_of(call), call.parts["partition"]
    if name.is_partition:
        raise Refusal(400, "Topic name can't contain '-partition-' suffix.")
    if not text.isascii() or not text.isdecimal() or len(text) > PARTITION_NUMBER_MAX:
        raise Refusal(400, f"A partition is a number, not {text[:40]!r}")
    if int(text) >= await _partitions_of(call, name):
        raise TopicNotFound(f"Topic {name.partition(int(text)).full} not found")
    return await _publish(call, [name.partition(int(text))], create=True)


async def _partitions_of(call: Call, name: TopicName) -> int:
    """Returns the number of a topic's partitions. Returns 0 for a topic without partitions, even if it does not
    exist."""
    catalog = call.broker.service.catalog
    await catalog.check_namespace(name.namespace)
    await check_local_cluster(call, name)
    with storage_faults_told():
        record = await catalog.partitioned.get(name)
    return 0 if record is None else record.partitions


async def _publish(call: Call, names: list[TopicName], *, create: bool) -> Answer:
    """Publishes the messages to the topics in turn. With `create`, a missing topic is created: a partition may be used
    as soon as its partitioned topic exists, even if nobody has used the partition before."""
    broker, body = call.broker, call.body
    with broker.http_publishing.taking(len(body)):
        try:
            request = await _aside(broker, len(body), lambda: read_request(body))
            schema = await _schema_of(broker, names[0], request)
            encoders = encoders_of(schema)
        except InvalidSchema as fault:
            raise Refusal(422, str(fault)) from None
        encoded = await _encoded(broker, len(body), request.messages, encoders)
    first = broker.http_publishing.first_partition(len(encoded), len(names))
    work = _Publishing(call, request.producer_name, schema, create=create)
    return await _to_its_end(broker, work.run(encoded, names[first:] + names[:first]))


async def _schema_of(broker: Broker, name: TopicName, request: ProduceRequest) -> Schema:
    """Returns the schema in the body, or the registered schema whose version the body names."""
    if request.schema is not None:
        return request.schema
    assert request.schema_version is not None, "a request has a schema or a version"
    try:
        stored = await broker.service.schemas.registry.version(name.schema_id, request.schema_version)
    except SchemaStorageFault as error:
        raise MetadataFault(str(error)) from error
    if stored is None or stored.schema.deleted:
        raise Refusal(404, f"schemaVersion: the topic's schema has no version {request.schema_version}")
    return stored.schema


async def _encoded(
    broker: Broker, size_bytes: int, messages: list[Any], encoders: Encoders
) -> list[EncodedMessage | str]:
    if size_bytes <= ON_THE_LOOP_BYTES:
        return [encode_message(each, encoders) async for each in in_portions(messages)]
    return await _aside(broker, size_bytes, lambda: [encode_message(each, encoders) for each in messages])


async def _aside(broker: Broker, size_bytes: int, work: Callable[[], T]) -> T:
    """Does work on a body of `size_bytes` and returns its result. The work runs on a thread if it may take long."""
    if size_bytes <= ON_THE_LOOP_BYTES:
        return work()
    async with broker.http_publishing.thread:
        return await asyncio.to_thread(work)


async def _to_its_end(broker: Broker, work: Coroutine[Any, Any, T]) -> T:
    """Does the work and returns its result. The work runs to its end even if the call is cancelled, so that no producer
    is left behind."""
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            result = await work
        except Exception as error:
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(result)

    broker.spawn(run())
    return await done


class _Publishing:
    """The messages of one call on their way to their topics."""

    def __init__(self, call: Call, producer_name: str, schema: Schema, *, create: bool) -> None:
        self._broker = call.broker
        self._remote_address = call.remote_address
        self._size_bytes = len(call.body)
        self._producer_name = producer_name
        self._schema = schema
        self._create = create
        self._schema_version = b""

    async def run(self, messages: list[EncodedMessage | str], names: list[TopicName]) -> Answer:
        """Publishes the messages to the topics in turn, and returns the answer to the call. Raises Refusal when every
        topic refused its producer. An error that is a fault of this server is raised as it is."""
        results: list[Stored] = [each if isinstance(each, str) else "" for each in messages]
        partitions = [names[index % len(names)] for index in range(len(messages))]
        parts: dict[TopicName, list[Part]] = defaultdict(list)
        for index, message in enumerate(messages):
            if not isinstance(message, str):
                parts[partitions[index]].append((index, message))
        if not parts:
            parts[names[0]] = []  # The topic's producer registers the schema, even without messages.
        with self._broker.http_publishing.taking(self._size_bytes):
            publishing = [self._publish(name, each) for name, each in parts.items()]
            outcomes = await asyncio.gather(*publishing, return_exceptions=True)
        faults = [each for each in outcomes if isinstance(each, BaseException)]
        if len(faults) == len(outcomes):
            raise _refusal(faults[0])
        for part, outcome in zip(parts.values(), outcomes, strict=True):
            for at, (index, _) in enumerate(part):
                results[index] = _refusal(outcome).reason if isinstance(outcome, BaseException) else outcome[at]
        version = int.from_bytes(self._schema_version, "big", signed=True)
        return {
            "messagePublishResults": [
                _result(result, name.partition_index if name.is_partition else NO_PARTITION, version)
                for result, name in zip(results, partitions, strict=True)
            ],
            "schemaVersion": version,
        }

    async def _publish(self, name: TopicName, part: list[Part]) -> list[Stored]:
        """Publishes messages to one topic and returns the outcome of each. Raises Refusal or PulsarError when the topic
        refuses the producer."""
        held = await self._broker.service.get_for_client(name, create=self._create)
        if held.policies.encryption_required:
            raise Refusal(412, f"Encryption is required in {name.full}: messages over HTTP are not encrypted")
        if part:
            await _wait_for_rate(held)
        # Without deduplication a name means nothing, and of two calls at the same time the topic would refuse one.
        has_own_name = held.publishing.dedup is not None and bool(self._producer_name)
        connection = HttpProducer(self._remote_address)
        schema = schema_to_command(name.schema_id, self._schema)
        producer = await connection.connect(held, self._producer_name if has_own_name else "", schema)
        try:
            self._schema_version = producer.schema_version
            results: list[Stored] = [""] * len(part)
            sends, places = await self._sends(held, producer, part, results)
            for place, stored in zip(places, await connection.publish(producer, sends), strict=True):
                results[place] = stored
            return results
        finally:
            connection.is_open = False
            producer.close()

    async def _sends(
        self, held: BaseTopic, producer: Producer, part: list[Part], results: list[Stored]
    ) -> tuple[Sends, list[int]]:
        """Returns the SENDs of the messages that may be sent, and the places of these messages in `part`. For each
        message that may not be sent, puts the reason into `results`."""
        is_deduplicated = held.publishing.dedup is not None
        stored_name = producer.name if is_deduplicated else self._producer_name or PRODUCER_NAME
        time_ms, sequence_id = now_ms(), producer.last_sequence_id
        sends: list[tuple[Send, bytes]] = []
        places: list[int] = []
        async for place, (_, message) in in_portions(enumerate(part)):
            sequence_id = sequence_id + 1 if message.sequence_id is None else message.sequence_id
            payload = payload_of(
                message,
                producer_name=stored_name,
                sequence_id=sequence_id,
                schema_version=producer.schema_version,
                published_ms=time_ms,
            )
            fault = metadata_fault(payload)
            if fault is None and len(message.body) > self._broker.limits.max_message_size:
                fault = "Exceed maximum message size"
            if fault is not None:
                results[place] = fault
                continue
            sends.append((pb.CommandSend(producer_id=producer.producer_id, sequence_id=sequence_id), payload))
            places.append(place)
        return sends, places


async def _wait_for_rate(held: BaseTopic) -> None:
    """Returns when the publish rates of the topic and of the broker have room. Raises Refusal 429 when they would have
    none within RATE_WAIT_SECONDS_MAX."""
    deadline_s = asyncio.get_running_loop().time() + RATE_WAIT_SECONDS_MAX
    while True:
        wait_s = max((each.wait_seconds() for each in held.publishing.limiters), default=0.0)
        if wait_s <= 0:
            return
        if asyncio.get_running_loop().time() + wait_s > deadline_s:
            headers = {"Retry-After": str(int(wait_s) + 1)}
            raise Refusal(429, f"The publish rate of {held.name.full} is exceeded", headers=headers)
        await asyncio.sleep(wait_s)


def _refusal(error: BaseException) -> Refusal:
    """Returns the refusal of a call that published no message because of `error`. Raises `error` itself if it is a
    fault of this server."""
    if isinstance(error, Refusal):
        return error
    if not isinstance(error, PulsarError):
        raise error
    status = STATUS_OF.get(type(error))
    if isinstance(error.__cause__, InvalidSchema):
        status = 422
    # The cause tells why the schema is refused, without the names of Java's exceptions.
    told = error.__cause__ if isinstance(error, IncompatibleSchema) and error.__cause__ is not None else error
    return refusal_of(error) if status is None else Refusal(status, str(told))


def _result(result: Stored, partition: int, schema_version: int) -> dict[str, Any]:
    """Returns the outcome of one message as ProducerAck shows it."""
    if isinstance(result, Position):
        place = f"{result.ledger_id}:{result.entry_id}:{partition}"
        return {"messageId": place, "errorCode": 0, "schemaVersion": schema_version}
    return {"errorMsg": result, "messageId": str(partition), "errorCode": FAILED, "schemaVersion": schema_version}
