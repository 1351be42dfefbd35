"""What the published Spark connectors ask of a broker, command by command.

The newer connectors, which have Java's client 4.0.5 (protocol 21), cannot run here. These are the exchanges with a
broker that were seen in 22 of their scenarios. The older one, with client 2.4.2, uses REST where the newer ones use the
binary protocol.
"""

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

import pulsar
import pytest

from compat_tests import wire
from compat_tests.harness import Server
from compat_tests.wire import Field, Message, WireClient, blob, decode, number

PARTITIONED_METADATA, PARTITIONED_METADATA_RESPONSE, GET_LAST_MESSAGE_ID_RESPONSE = 21, 22, 30
GET_TOPICS, GET_TOPICS_RESPONSE, GET_SCHEMA, GET_SCHEMA_RESPONSE = 32, 33, 34, 35
AUTO_CONSUME, STRING = 21, 1
NONE = 2**64 - 1
"""The number -1 in an unsigned field of 64 bits."""
MAX = 2**63 - 1
QUEUE = 1000
CONSUMER_BUSY = 5
WITHOUT_CREATION_FLAG = 5
"""The flag of FeatureFlags that lets a client ask for partitions without creating the topic."""
TOPIC_NOT_FOUND = 11

Id = tuple[int, int]


@pytest.fixture
def cnx(server: Server) -> Any:
    with WireClient(server.broker_port) as connection:
        yield connection


def durable(cnx: WireClient, topic: str, subscription: str, consumer_id: int = 1) -> None:
    """Subscribes as the driver's cursor consumer does: Exclusive, durable, Earliest, with an AutoConsume schema."""
    schema: list[Field] = [(1, ""), (3, b""), (4, AUTO_CONSUME)]
    fields: list[Field] = [(1, topic), (2, subscription), (3, 0), (4, consumer_id), (5, 7), (8, 1), (12, schema)]
    cnx.send(wire.SUBSCRIBE, [*fields, (13, 1), (15, 1)])
    cnx.expect(wire.SUCCESS)
    cnx.send(wire.FLOW, [(1, consumer_id), (2, QUEUE)])


def reader(cnx: WireClient, topic: str, start: Id, batch_index: int = NONE, schema: bool = False) -> None:
    """Subscribes as an executor's reader does: Exclusive, not durable, from an id."""
    message_id: list[Field] = [(1, start[0]), (2, start[1]), (4, batch_index)]
    fields: list[Field] = [(1, topic), (2, "spark-reader-0123456789"), (3, 0), (4, 2), (5, 8), (8, 0), (9, message_id)]
    if schema:
        fields.append((12, [(1, "String"), (3, b""), (4, STRING)]))
    cnx.send(wire.SUBSCRIBE, [*fields, (13, 0), (15, 1)])
    cnx.expect(wire.SUCCESS)
    cnx.send(wire.FLOW, [(1, 2), (2, QUEUE)])


def pushed(cnx: WireClient, count: int) -> list[Id]:
    return [id_of(decode(blob(cnx.expect(wire.MESSAGE), 2))) for _ in range(count)]


def id_of(message_id: Message) -> Id:
    return number(message_id, 1), number(message_id, 2)


def last_message_id(cnx: WireClient, consumer_id: int) -> tuple[Message, Message]:
    """Returns the last message and the mark-delete position."""
    cnx.send(wire.GET_LAST_MESSAGE_ID, [(1, consumer_id), (2, 9)])
    while True:
        kind, answer, _ = cnx.receive()
        if kind != wire.MESSAGE:
            assert kind == GET_LAST_MESSAGE_ID_RESPONSE, answer
            return decode(blob(answer, 1)), decode(blob(answer, 3))


def produce(client: pulsar.Client, topic: str, count: int, **options: Any) -> list[Id]:
    producer = client.create_producer(topic, **options)
    ids = [producer.send(b"%d" % index) for index in range(count)]
    producer.close()
    return [(each.ledger_id(), each.entry_id()) for each in ids]


def test_partitions_of_a_partition_are_none(cnx: WireClient, client: pulsar.Client, topic: str) -> None:
    for name, create in ((topic, 1), (f"{topic}-partition-0", 1)):
        cnx.send(PARTITIONED_METADATA, [(1, name), (2, 5), (6, create)])
        answer = cnx.expect(PARTITIONED_METADATA_RESPONSE)
        assert (number(answer, 1), number(answer, 3)) == (0, 0)
    cnx.send(PARTITIONED_METADATA, [(1, f"{topic}-missing"), (2, 6), (6, 0)])
    refused = cnx.expect(PARTITIONED_METADATA_RESPONSE)
    assert (number(refused, 3), number(refused, 4)) == (1, TOPIC_NOT_FOUND)


def test_the_drivers_subscription_has_a_name_full_of_slashes_and_registers_no_schema(
    cnx: WireClient, client: pulsar.Client, topic: str
) -> None:
    produce(client, topic, 1)
    durable(cnx, topic, f"spark-pulsar-0-{topic}")
    pushed(cnx, 1)
    cnx.send(GET_SCHEMA, [(1, 11), (2, topic)])
    assert number(cnx.expect(GET_SCHEMA_RESPONSE), 2, -1) == TOPIC_NOT_FOUND
    cnx.send(wire.UNSUBSCRIBE, [(1, 1), (2, 12), (3, 0)])
    assert number(cnx.expect(wire.SUCCESS), 1) == 12


def test_the_last_message_of_an_empty_topic_and_of_a_batched_tail(
    cnx: WireClient, client: pulsar.Client, topic: str
) -> None:
    durable(cnx, topic, "s")
    last, _ = last_message_id(cnx, 1)
    assert id_of(last) == (NONE, NONE)
    (first,) = produce(client, topic, 1, batching_enabled=False)
    last, mark_delete = last_message_id(cnx, 1)
    assert id_of(last) == first
    assert number(last, 4, NONE) == NONE
    assert number(mark_delete, 2) == NONE
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1000)
    for index in range(5):
        producer.send_async(b"%d" % index, None)
    producer.flush()
    last, _ = last_message_id(cnx, 1)
    assert (number(last, 2), number(last, 4)) == (first[1] + 1, 4)


@pytest.mark.parametrize("place", ["earliest", "latest", "id", "time"])
def test_seek_closes_the_consumer_before_it_succeeds(
    cnx: WireClient, client: pulsar.Client, topic: str, place: str
) -> None:
    """The connection goes on with LOOKUP, the same consumer id, and FLOW."""
    ids = produce(client, topic, 4, batching_enabled=False)
    durable(cnx, topic, "s")
    assert pushed(cnx, 4) == ids
    targets: dict[str, tuple[Field, list[Id]]] = {
        "earliest": ((3, [(1, NONE), (2, NONE)]), ids),
        "latest": ((3, [(1, MAX), (2, MAX)]), []),
        "id": ((3, [(1, ids[2][0]), (2, ids[2][1])]), ids[2:]),
        "time": ((4, 1), ids),
    }
    field, expected = targets[place]
    cnx.send(wire.SEEK, [(1, 1), (2, 21), field])
    closed = cnx.expect(wire.CLOSE_CONSUMER)
    assert (number(closed, 1), number(closed, 2)) == (1, NONE)
    assert number(cnx.expect(wire.SUCCESS), 1) == 21
    cnx.send(wire.LOOKUP, [(1, topic), (2, 22), (3, 0)])
    cnx.expect(wire.LOOKUP_RESPONSE)
    durable(cnx, topic, "s")
    assert pushed(cnx, len(expected)) == expected


def test_a_reader_gets_the_entry_that_it_starts_with_first(cnx: WireClient, client: pulsar.Client, topic: str) -> None:
    ids = produce(client, topic, 4, batching_enabled=False)
    reader(cnx, topic, ids[1])
    assert pushed(cnx, 3) == ids[1:]
    cnx.send(wire.ACK, [(1, 2), (2, 1), (3, [(1, ids[3][0]), (2, ids[3][1])])])
    cnx.send(wire.CLOSE_CONSUMER, [(1, 2), (2, 31)])
    assert number(cnx.expect(wire.SUCCESS), 1) == 31


@pytest.mark.parametrize("start", [(NONE, NONE), None], ids=["-1:-1", "ledger:-1"])
def test_a_reader_from_before_a_ledger_acknowledges_entry_minus_one(
    cnx: WireClient, client: pulsar.Client, topic: str, start: Id | None
) -> None:
    ids = produce(client, topic, 3, batching_enabled=False)
    before = start or (ids[0][0], NONE)
    reader(cnx, topic, before)
    assert pushed(cnx, 3) == ids
    cnx.send(wire.ACK, [(1, 2), (2, 1), (3, [(1, before[0]), (2, before[1])])])
    cnx.send(wire.CLOSE_CONSUMER, [(1, 2), (2, 32)])
    assert number(cnx.expect(wire.SUCCESS), 1) == 32


def test_a_producer_without_count_and_a_connection_that_just_ends(
    cnx: WireClient, server: Server, client: pulsar.Client, topic: str
) -> None:
    """Single SENDs leave out num_messages; the older client never closes its producers."""
    name = cnx.open_producer(topic)
    data = wire.payload(wire.message_metadata(name, 0), b"alone")
    cnx.send(wire.SEND, [(1, 1), (2, 0)], data)
    cnx.expect(wire.SEND_RECEIPT)
    cnx.close()
    with WireClient(server.broker_port) as second:
        second.open_producer(topic)


def test_topics_of_a_namespace_by_a_raw_pattern(cnx: WireClient, client: pulsar.Client, topic: str) -> None:
    produce(client, topic, 1)
    pattern = "persistent://public/default/test_topics_.*"  # brokers do not evaluate more than 50 characters
    fields: list[Field] = [(1, 41), (2, "public/default"), (3, 2), (4, pattern), (5, "")]
    cnx.send(GET_TOPICS, fields)
    answer = cnx.expect(GET_TOPICS_RESPONSE)
    assert [str(bytes(each), "utf-8") for each in answer[2] if isinstance(each, bytes)] == [topic]
    assert number(answer, 5, 1) == 1


def call(server: Server, method: str, path: str, body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.web_url}/admin/v2/{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
            return answer.status, json.loads(content) if content else None
    except urllib.error.HTTPError as error:
        error.close()
        return error.code, None


def test_every_rest_call_of_the_connectors(server: Server, client: pulsar.Client, topic: str) -> None:
    local = topic.rpartition("/")[2]
    path = f"persistent/public/default/{local}"
    assert call(server, "GET", f"{path}-missing/internalStats?metadata=false")[0] == 404
    assert call(server, "GET", f"schemas/public/default/{local}/schema")[0] == 404
    ids = produce(client, topic, 3, batching_enabled=False)
    assert call(server, "GET", f"{path}/partitions")[1]["partitions"] == 0
    last = call(server, "GET", f"{path}/lastMessageId")[1]
    assert (last["ledgerId"], last["entryId"]) == ids[2]
    stats = call(server, "GET", f"{path}/internalStats?metadata=false")[1]
    assert stats["currentLedgerEntries"] == 3
    assert stats["currentLedgerSize"] > 3 * 30
    assert [ledger["ledgerId"] for ledger in stats["ledgers"]] == [ids[0][0]]
    for domain in ("persistent", "non-persistent"):
        for tail in ("", "/partitioned"):
            assert call(server, "GET", f"{domain}/public/default{tail}")[0] == 200
    schema = {"type": "STRING", "schema": "", "properties": {}}
    assert call(server, "POST", f"schemas/public/default/{local}/schema", schema)[0] in (200, 204)
    assert call(server, "GET", f"schemas/public/default/{local}/schema")[1]["type"] == "STRING"


def test_the_older_connectors_subscription_comes_with_a_name_encoded_twice(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    ids = produce(client, topic, 3, batching_enabled=False)
    name = quote(f"spar-pulsar-0-{topic}", safe="")
    path = f"persistent/public/default/{topic.rpartition('/')[2]}"
    one = f"{path}/subscription/{quote(name, safe='')}"
    start = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
    assert call(server, "PUT", one, start)[0] in (200, 204)
    assert call(server, "GET", f"{path}/subscriptions")[1] == [name]
    for target in (start, {"ledgerId": ids[2][0], "entryId": ids[2][1], "partitionIndex": -1}):
        assert call(server, "POST", f"{one}/resetcursor", target)[0] in (200, 204)
    backlog = call(server, "GET", f"{path}/stats")[1]["subscriptions"][name]["msgBacklog"]
    assert backlog <= 1
    assert call(server, "DELETE", one)[0] in (200, 204)
    assert call(server, "GET", f"{path}/subscriptions")[1] == []


def test_the_newer_client_is_told_what_the_broker_can(server: Server) -> None:
    """Without the flag for partitions the connector's `waitingForNonExistedTopic` creates what it waits for."""
    with WireClient(server.broker_port, handshake=False) as connection:
        flags: list[Field] = [(1, 1), (2, 1), (3, 1), (5, 1), (6, 1)]
        connection.send(wire.CONNECT, [(1, "Pulsar-Java-v4.0.5"), (4, 21), (10, flags)])
        connected = connection.expect(wire.CONNECTED)
        assert number(connected, 2) >= 19
        offered = decode(blob(connected, 4))
        assert number(offered, WITHOUT_CREATION_FLAG) == 1


def test_lookup_names_the_address_that_is_dialled(cnx: WireClient, server: Server, topic: str) -> None:
    cnx.send(wire.LOOKUP, [(1, topic), (2, 51), (3, 0)])
    answer = cnx.expect(wire.LOOKUP_RESPONSE)
    assert blob(answer, 1).decode() == server.broker_url
    assert number(answer, 3) == 1  # CommandLookupTopicResponse.Connect


@pytest.mark.parametrize("data", [b"", b"null"], ids=["java", "python"])
def test_a_primitive_schema_comes_back_as_it_was_stored_also_by_its_version(
    cnx: WireClient, topic: str, data: bytes
) -> None:
    cnx.send(wire.LOOKUP, [(1, topic), (2, 61), (3, 0)])
    cnx.expect(wire.LOOKUP_RESPONSE)
    schema: list[Field] = [(1, "String"), (3, data), (4, STRING)]
    cnx.send(wire.PRODUCER, [(1, topic), (2, 1), (3, 62), (7, schema)])
    created = cnx.expect(wire.PRODUCER_SUCCESS)
    cnx.send(GET_SCHEMA, [(1, 63), (2, topic)])
    newest = cnx.expect(GET_SCHEMA_RESPONSE)
    version = blob(newest, 5)
    assert version == blob(created, 4)
    cnx.send(GET_SCHEMA, [(1, 64), (2, topic), (3, version)])
    for answer in (newest, cnx.expect(GET_SCHEMA_RESPONSE)):
        stored = decode(blob(answer, 4))
        assert (blob(stored, 3), number(stored, 4)) == (data, STRING)


def test_a_seek_into_a_batch_keeps_the_rest_of_its_entry(cnx: WireClient, client: pulsar.Client, topic: str) -> None:
    """The Java client clears the bits before the index, and drops those messages itself when the entry comes again."""
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1000)
    for index in range(6):
        producer.send_async(b"%d" % index, None)
    producer.flush()
    durable(cnx, topic, "s")
    (entry,) = pushed(cnx, 1)
    words: list[Field] = [(1, entry[0]), (2, entry[1]), (4, 3), (5, 0b111000), (6, 6)]
    cnx.send(wire.SEEK, [(1, 1), (2, 71), (3, words)])
    cnx.expect(wire.CLOSE_CONSUMER)
    cnx.expect(wire.SUCCESS)
    durable(cnx, topic, "s")
    assert pushed(cnx, 1) == [entry]


def test_a_batch_names_its_highest_sequence_and_the_producer_closes(cnx: WireClient, topic: str) -> None:
    name = cnx.open_producer(topic)
    body = b"".join(single(b"%d" % index) for index in range(3))
    data = wire.payload(wire.message_metadata(name, 0, [(11, 3), (24, 2)]), body)
    cnx.send(wire.SEND, [(1, 1), (2, 0), (3, 3), (6, 2)], data)
    receipt = cnx.expect(wire.SEND_RECEIPT)
    assert (number(receipt, 2), number(receipt, 4)) == (0, 2)
    cnx.send(wire.CLOSE_PRODUCER, [(1, 1), (2, 81)])
    assert number(cnx.expect(wire.SUCCESS), 1) == 81


def single(value: bytes) -> bytes:
    """Returns a message as it is in a batch: the size of its metadata, the metadata, and the value."""
    metadata = wire.encode([(3, len(value))])
    return len(metadata).to_bytes(4, "big") + metadata + value


def test_the_topics_of_a_namespace_are_named_by_their_partitions(
    cnx: WireClient, server: Server, client: pulsar.Client, topic: str
) -> None:
    path = f"persistent/public/default/{topic.rpartition('/')[2]}"
    assert call(server, "PUT", f"{path}/partitions?createLocalTopicOnly=false", 2)[0] in (200, 204)
    produce(client, topic, 4)
    cnx.send(GET_TOPICS, [(1, 42), (2, "public/default"), (3, 2), (4, f"{topic}.*"), (5, "")])
    found = [each.decode() for each in cnx.expect(GET_TOPICS_RESPONSE)[2] if isinstance(each, bytes)]
    assert {f"{topic}-partition-0", f"{topic}-partition-1"} <= set(found)


def test_a_subscription_of_partition_zero_is_there_on_partitions_that_are_added(
    cnx: WireClient, server: Server, client: pulsar.Client, topic: str
) -> None:
    path = f"persistent/public/default/{topic.rpartition('/')[2]}"
    call(server, "PUT", f"{path}/partitions", 1)
    name = f"spark-pulsar-0-{topic}-partition-0"
    durable(cnx, f"{topic}-partition-0", name)
    grown = call(server, "POST", f"{path}/partitions?updateLocalTopicOnly=false&force=false", 2)
    assert grown[0] in (200, 204)
    assert call(server, "GET", f"{path}-partition-1/subscriptions")[1] == [name]


def test_an_exclusive_cursor_is_not_shared(cnx: WireClient, client: pulsar.Client, topic: str) -> None:
    holder = client.subscribe(topic, "s")
    cnx.send(wire.LOOKUP, [(1, topic), (2, 91), (3, 0)])
    cnx.expect(wire.LOOKUP_RESPONSE)
    cnx.send(wire.SUBSCRIBE, [(1, topic), (2, "s"), (3, 0), (4, 1), (5, 92), (8, 1), (13, 1), (15, 1)])
    assert number(cnx.expect(wire.ERROR), 2) == CONSUMER_BUSY
    holder.close()


def test_a_topic_made_anew_has_younger_ledgers(server: Server, client: pulsar.Client, topic: str) -> None:
    """These are also the calls with which the connector's own tests clean up."""
    path = f"persistent/public/default/{topic.rpartition('/')[2]}"
    (before,) = produce(client, topic, 1)
    assert call(server, "DELETE", f"{path}?force=true&deleteSchema=true")[0] in (200, 204)
    assert call(server, "GET", f"{path}/internalStats?metadata=false")[0] == 404
    assert call(server, "PUT", path)[0] in (200, 204)
    (after,) = produce(client, topic, 1)
    assert after[0] > before[0]
    for query in ("persistent/public/default?includeSystemTopic=false", "namespaces/public/default/topics"):
        status, names = call(server, "GET", query)
        assert (status, topic in names) == (200, True)
