"""Python's `websockets` as producer, consumer and reader; the official client sees what it does, and the reverse."""

import urllib.error
import urllib.request
import uuid
from base64 import b64decode

import pulsar
import pytest
from websockets.exceptions import InvalidStatus

from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import Admin
from compat_tests.websocket.socket_client import FOLDER, Socket, path_of

FROM_START = "subscriptionInitialPosition=Earliest"


@pytest.fixture
def place(topic: str) -> str:
    """The topic as it stands in a path."""
    return f"{FOLDER}/{topic.rpartition('/')[2]}"


def filled(server: Server, place: str, count: int) -> list[str]:
    """Publishes m0, m1, … and returns their ids."""
    with Socket(server, f"producer/{place}") as producer:
        return [producer.publish(b"m%d" % index) for index in range(count)]


def test_the_official_client_receives_what_a_socket_publishes(
    server: Server, client: pulsar.Client, topic: str, place: str
) -> None:
    consumer = client.subscribe(topic, "sub")
    with Socket(server, f"producer/{place}?producerName=ws") as producer:
        answer = producer.ask(
            {
                "payload": "aGVsbG8=",
                "properties": {"a": "1", "ü": "ß"},
                "context": "c1",
                "key": "k",
                "eventTime": "2026-11-22T11:00:00.25+01:00",
            }
        )
        assert answer.pop("messageId")
        assert answer == {"result": "ok", "context": "c1", "errorCode": 0, "schemaVersion": 0}
    message = consumer.receive(timeout_millis=20_000)
    assert message.data() == b"hello"
    assert message.properties() == {"a": "1", "ü": "ß"}
    assert message.partition_key() == "k"
    assert message.event_timestamp() == 1795341600250
    assert message.producer_name() == "ws"


@pytest.mark.parametrize("batching", [False, True])
@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"])
def test_a_socket_receives_what_the_official_client_publishes(
    server: Server, client: pulsar.Client, topic: str, place: str, compression: str, batching: bool
) -> None:
    with Socket(server, f"consumer/{place}/sub") as consumer:
        producer = client.create_producer(
            topic,
            batching_enabled=batching,
            batching_max_publish_delay_ms=20,
            compression_type=getattr(pulsar.CompressionType, compression),
        )
        for index in range(20):
            producer.send_async(
                b"text " * 100 + b"%d" % index,
                None,
                properties={"at": str(index)},
                partition_key=f"k{index}",
                event_timestamp=1795341600000,
            )
        producer.flush()
        for index in range(20):
            message = consumer.hear()
            assert b64decode(message["payload"]) == b"text " * 100 + b"%d" % index
            assert message["properties"] == {"at": str(index)}
            assert message["key"] == f"k{index}"
            assert message["eventTime"] == "2026-11-22T10:00:00Z"
            assert message["redeliveryCount"] == 0
            consumer.say({"messageId": message["messageId"]})


@pytest.mark.parametrize("query", ["batchingEnabled=true&compressionType=LZ4", "compressionType=ZSTD", ""])
def test_batches_and_compression_are_chosen_by_the_query(
    server: Server, client: pulsar.Client, topic: str, place: str, query: str
) -> None:
    consumer = client.subscribe(topic, "sub")
    with Socket(server, f"producer/{place}?{query}") as producer:
        for index in range(50):
            producer.say({"payload": "dGV4dCA=" if index % 2 else "", "context": str(index)})
        ids = []
        for index in range(50):
            answer = producer.hear()
            assert (answer["result"], answer["context"]) == ("ok", str(index))
            ids.append(answer["messageId"])
    assert len(set(ids)) == 50
    got = [consumer.receive(timeout_millis=20_000).data() for _ in range(50)]
    assert got == [b"text " if index % 2 else b"" for index in range(50)]


def test_a_message_of_a_batch_has_one_id_for_everybody(server: Server, place: str, is_peer: bool) -> None:
    if is_peer:
        pytest.skip("Apache's answers have 0 for the size of the batch")
    with (
        Socket(server, f"producer/{place}?batchingEnabled=true&batchingMaxMessages=3") as producer,
        Socket(server, f"consumer/{place}/sub") as consumer,
    ):
        for _ in range(6):
            producer.say({"payload": "eA=="})
        answered = [producer.hear()["messageId"] for _ in range(6)]
        assert [consumer.hear()["messageId"] for _ in range(6)] == answered
        assert len(set(answered)) == 6


def test_a_batch_of_one_message_is_stored_like_any_single_message(
    server: Server, client: pulsar.Client, topic: str, place: str
) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    with (
        Socket(server, f"producer/{place}?batchingEnabled=true") as producer,
        Socket(server, f"consumer/{place}/sub?{FROM_START}") as consumer,
    ):
        message_id = producer.publish(b"alone", properties={"a": "1"})
        assert consumer.hear()["messageId"] == message_id
    message = reader.read_next(timeout_millis=20_000)
    assert (message.data(), message.properties()) == (b"alone", {"a": "1"})
    assert message.message_id().batch_index() == -1


def test_a_bad_message_is_refused_and_the_socket_stays_open(server: Server, place: str) -> None:
    with Socket(server, f"producer/{place}") as producer:
        assert producer.ask({"payload": "***", "context": "a"})["result"] == "send-error:7"
        assert producer.ask({"context": "b"})["context"] == "b"
        assert producer.ask({"payload": "eA==", "eventTime": "123"})["result"] == "send-error:7"
        producer.connection.send("no json")
        assert producer.hear()["result"] == "send-error:3"
        producer.publish(b"good")


def test_a_consumer_gets_no_more_than_its_queue_holds_before_it_acknowledges(server: Server, place: str) -> None:
    filled(server, place, 4)
    with Socket(server, f"consumer/{place}/sub?{FROM_START}&receiverQueueSize=2") as consumer:
        first, second = consumer.hear(), consumer.hear()
        assert [b64decode(each["payload"]) for each in (first, second)] == [b"m0", b"m1"]
        assert consumer.hears_nothing()
        consumer.say({"messageId": first["messageId"]})
        assert b64decode(consumer.hear()["payload"]) == b"m2"


def test_acknowledged_messages_do_not_come_again_and_others_do(server: Server, place: str) -> None:
    filled(server, place, 4)
    path = f"consumer/{place}/sub?{FROM_START}&subscriptionType=Shared"
    with Socket(server, path) as consumer:
        messages = [consumer.hear() for _ in range(4)]
        for message in messages[::2]:
            consumer.say({"messageId": message["messageId"]})
        backlog = f"persistent/public/default/{place.rpartition('/')[2]}/stats"
        admin = Admin(server)
        wait_until(
            lambda: admin.get(backlog)["subscriptions"]["sub"]["consumers"][0]["unackedMessages"] == 2,
            "two messages are acknowledged",
        )
    with Socket(server, path) as consumer:
        assert [consumer.take() for _ in range(2)] == [b"m1", b"m3"]
        assert consumer.hears_nothing()


def test_a_negative_acknowledgement_brings_the_message_again(server: Server, place: str) -> None:
    filled(server, place, 2)
    path = f"consumer/{place}/sub?{FROM_START}&subscriptionType=Shared&negativeAckRedeliveryDelay=300"
    with Socket(server, path) as consumer:
        first, second = consumer.hear(), consumer.hear()
        consumer.say({"messageId": second["messageId"]})
        consumer.say({"type": "negativeAcknowledge", "messageId": first["messageId"]})
        again = consumer.hear()
        assert again["messageId"] == first["messageId"]
        assert again["redeliveryCount"] == 1


def test_in_pull_mode_nothing_comes_without_a_permit_and_permits_add_up(server: Server, place: str) -> None:
    filled(server, place, 5)
    with Socket(server, f"consumer/{place}/sub?{FROM_START}&pullMode=true") as consumer:
        assert consumer.hears_nothing()
        consumer.say({"type": "permit", "permitMessages": 1})
        consumer.say({"type": "permit", "permitMessages": 2})
        assert [consumer.take() for _ in range(3)] == [b"m0", b"m1", b"m2"]
        assert consumer.hears_nothing()


def test_a_subscription_ends_when_its_socket_says_unsubscribe(server: Server, place: str) -> None:
    with Socket(server, f"consumer/{place}/sub") as consumer:
        consumer.say({"type": "unsubscribe"})
        admin = Admin(server)
        wait_until(lambda: admin.get(f"{place}/subscriptions") == [], "the subscription is gone")


def test_the_end_of_a_topic_is_told_on_request(server: Server, place: str) -> None:
    filled(server, place, 1)
    with Socket(server, f"consumer/{place}/sub?{FROM_START}") as consumer:
        assert consumer.take() == b"m0"
        assert consumer.ask({"type": "isEndOfTopic"}) == {"endOfTopic": False}
        request = urllib.request.Request(f"{server.web_url}/admin/v2/{place}/terminate", method="POST", data=b"")
        urllib.request.urlopen(request, timeout=30).close()
        wait_until(lambda: consumer.ask({"type": "isEndOfTopic"}) == {"endOfTopic": True}, "the topic ends")


def test_a_reader_begins_where_it_is_told_and_waits_for_acknowledgements(server: Server, place: str) -> None:
    ids = filled(server, place, 4)
    with Socket(server, f"reader/{place}?messageId=earliest&receiverQueueSize=2") as reader:
        first, second = reader.hear(), reader.hear()
        assert [first["messageId"], second["messageId"]] == ids[:2]
        reader.say({"messageId": first["messageId"]})
        assert reader.hear()["messageId"] == ids[2]
    with Socket(server, f"reader/{place}?messageId={path_of(ids[1])}") as reader:
        assert [reader.hear()["messageId"] for _ in range(2)] == ids[2:]
    with Socket(server, f"reader/{place}") as reader:
        assert reader.hears_nothing()
        (new,) = filled(server, place, 1)
        assert reader.hear()["messageId"] == new


def test_a_pattern_finds_a_topic_and_all_its_partitions(server: Server) -> None:
    short = f"ws-{uuid.uuid4().hex[:8]}"  # a pattern may have 50 characters (subscriptionPatternMaxLength)
    Admin(server).put(f"persistent/public/default/{short}-p/partitions", 3)
    pattern = f"persistent://public/default/{short}-.*"
    with Socket(server, f"producer/{FOLDER}/{short}-p?messageRoutingMode=RoundRobinPartition") as producer:
        ids = [producer.publish(b"%d" % index) for index in range(9)]
        assert len(set(ids)) == 9
        with Socket(server, f"/ws/v3/consumer/sub?topicsPattern={pattern}&{FROM_START}") as consumer:
            assert sorted(consumer.take() for _ in range(9)) == [b"%d" % index for index in range(9)]


def test_one_socket_consumes_several_topics_and_all_partitions(server: Server, place: str) -> None:
    short = place.rpartition("/")[2]
    Admin(server).put(f"persistent/public/default/{short}-p/partitions", 3)
    names = [f"{short}-a", f"{short}-b", f"{short}-p"]
    topics = ",".join(f"persistent://public/default/{name}" for name in names)
    with Socket(server, f"/ws/v3/consumer/sub?topics={topics}") as consumer:
        for name in names:
            with Socket(server, f"producer/{FOLDER}/{name}") as producer:
                for index in range(6):
                    producer.publish(f"{name} {index}".encode())
        got = sorted(consumer.take() for _ in range(18))
        assert got == sorted(f"{name} {index}".encode() for name in names for index in range(6))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("producer/PLACE?hashingScheme=Nope", 400),
        ("producer/PLACE?compressionType=Nope", 400),
        ("consumer/PLACE/sub?subscriptionType=Nope", 400),
        ("producer/persistent/public/nope/x", 404),
        ("nope/PLACE", 404),
    ],
)
def test_what_cannot_be_opened_is_refused_with_a_status(server: Server, place: str, path: str, status: int) -> None:
    with pytest.raises(InvalidStatus) as caught:
        Socket(server, path.replace("PLACE", place))
    assert caught.value.response.status_code == status


def test_a_second_exclusive_consumer_and_a_second_producer_of_a_name_are_refused(server: Server, place: str) -> None:
    for path in (f"consumer/{place}/sub", f"producer/{place}?producerName=one"):
        with Socket(server, path):
            with pytest.raises(InvalidStatus) as caught:
                Socket(server, path)
            assert caught.value.response.status_code == 409
        wait_until(lambda path=path: opens(server, path), "the name is free again")  # type: ignore[misc]


def opens(server: Server, path: str) -> bool:
    try:
        Socket(server, path).close()
    except InvalidStatus:
        return False
    return True


def test_an_upgrade_of_a_path_that_has_no_socket_is_not_found(server: Server) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{server.web_url}/ws/v2/nope", timeout=30)
    assert caught.value.code == 404
