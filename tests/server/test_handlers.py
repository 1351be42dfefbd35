"""What each command answers: codes and texts of a Java broker, from real captures where they exist."""

import asyncio
import struct
from typing import Any

import pytest

from pulsar_proto.checksum import crc32c
from pulsar_proto.commands import send_frame
from pulsar_proto.errors import MetadataFault, ProducerBusy, ServiceNotReady
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.payload import build_broker_entry_metadata, build_payload
from pulsar_proto.pb import pulsar_api_pb2 as pb
from server.topics.settings import TopicSettings
from tests.server.fakes import FakeConsumer, FakeProducer, Peer, command, make_broker, settle

TOPIC = "persistent://public/default/t"
Type = pb.BaseCommand

CAPTURED_LAST_MESSAGE_ID = (
    "0000002d00000029081ef201240a1a081b100018ffffffffffffffffff0120ffffffffffffffffff01103c1a04081a1002"
)
"""A 4.0.7 broker's answer to request 60: last message 27:0, mark-delete 26:2."""


def metadata(**values: Any) -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **values)


def producer(producer_id: int = 1, request_id: int = 1, topic: str = TOPIC, **values: Any) -> pb.BaseCommand:
    return command("PRODUCER", "producer", topic=topic, producer_id=producer_id, request_id=request_id, **values)


def subscribe(consumer_id: int = 1, request_id: int = 1, topic: str = TOPIC, **values: Any) -> pb.BaseCommand:
    values = {"subscription": "s", "subType": pb.CommandSubscribe.Exclusive, **values}
    return command("SUBSCRIBE", "subscribe", topic=topic, consumer_id=consumer_id, request_id=request_id, **values)


async def connected(broker: Any = None) -> Peer:
    peer = Peer(broker or make_broker()).connect()
    await peer.answers()
    return peer


async def subscribed(broker: Any = None) -> tuple[Peer, FakeConsumer]:
    broker = broker or make_broker()
    peer = await connected(broker)
    peer.say(subscribe())
    await peer.answers()
    return peer, broker.service.topic(TOPIC).consumers[-1]


async def producing(broker: Any = None) -> tuple[Peer, FakeProducer]:
    broker = broker or make_broker()
    peer = await connected(broker)
    peer.say(producer())
    await peer.answers()
    return peer, broker.service.topic(TOPIC).producers[-1]


class TestConnect:
    async def test_connected_says_what_this_broker_can(self) -> None:
        peer = Peer(make_broker(max_message_size=1_000_000)).connect(version=19)
        answer = (await peer.answer()).connected
        assert answer.server_version
        assert (answer.protocol_version, answer.max_message_size) == (19, 1_000_000)
        flags = {field.name for field, value in answer.feature_flags.ListFields() if value}
        assert flags == {"supports_get_partitioned_metadata_without_auto_creation"}

    async def test_a_captured_connect_of_the_cpp_client_is_understood(self) -> None:
        peer = Peer(make_broker())
        peer.feed(
            bytes.fromhex("0000002900000025080212210a1150756c7361722d4350502d76342e322e3020142a046e6f6e65520408011001")
        )
        assert (await peer.answer()).connected.protocol_version == 20
        assert peer.connection.client_version == "Pulsar-CPP-v4.2.0"

    async def test_ping_is_answered_also_before_connect(self) -> None:
        peer = Peer(make_broker())
        peer.say(command("PONG", "pong"), command("PING", "ping"))
        assert (await peer.answer()).type == Type.PONG
        assert not peer.is_closed


class TestProducer:
    async def test_success_names_the_producer(self) -> None:
        peer = await connected()
        peer.say(producer(producer_name="mine"))
        answer = (await peer.answer()).producer_success
        assert answer == pb.CommandProducerSuccess(
            request_id=1, producer_name="mine", last_sequence_id=-1, schema_version=b"", producer_ready=True
        )

    async def test_an_id_in_use_answers_success_again(self) -> None:
        broker = make_broker()
        peer, _ = await producing(broker)
        peer.say(producer(request_id=2, producer_name="other"))
        answer = (await peer.answer()).producer_success
        assert (answer.request_id, answer.producer_name) == (2, "standalone-0-1")
        assert len(broker.service.topic(TOPIC).producers) == 1

    async def test_a_pending_id_is_not_ready(self) -> None:
        broker = make_broker()
        gate = broker.service.gate = asyncio.Event()
        peer = await connected(broker)
        peer.say(producer(request_id=1), producer(request_id=2))
        answer = (await peer.answer()).error
        assert (answer.request_id, answer.error) == (2, pb.ServiceNotReady)
        gate.set()
        assert (await peer.answer()).producer_success.request_id == 1

    async def test_close_while_pending_succeeds_and_abandons_the_creation(self) -> None:
        broker = make_broker()
        gate = broker.service.gate = asyncio.Event()
        peer = await connected(broker)
        peer.say(producer(request_id=1))
        await settle()
        peer.say(command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=2))
        assert (await peer.answer()).success.request_id == 2
        peer.say(producer(request_id=3))
        await settle()
        gate.set()
        assert (await peer.answer()).producer_success.request_id == 3
        first, second = broker.service.topic(TOPIC).producers
        assert (first.closed, second.closed) == (1, 0)
        assert peer.connection.producers == {1: second}

    async def test_a_producer_that_waits_for_others_stops_waiting_when_it_is_closed(self) -> None:
        broker = make_broker()
        broker.service.gate = asyncio.Event()
        peer = await connected(broker)
        peer.say(producer(producer_access_mode=pb.WaitForExclusive))
        await settle()
        peer.say(command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=2))
        assert (await peer.answer()).success.request_id == 2
        assert not broker.background_tasks

    @pytest.mark.parametrize("made", [producer(), subscribe()])
    async def test_what_the_topic_closed_before_it_was_told_is_not_ready(self, made: pb.BaseCommand) -> None:
        broker = make_broker()
        broker.service.closes_at_once = True
        peer = await connected(broker)
        peer.say(made)
        assert (await peer.answer()).error.error == pb.ServiceNotReady
        assert not peer.connection.producers
        assert not peer.connection.consumers

    async def test_a_creation_that_fails_after_its_close_says_nothing(self) -> None:
        broker = make_broker()
        gate = broker.service.gate = asyncio.Event()
        broker.service.failure = ServiceNotReady("too late")
        peer = await connected(broker)
        peer.say(producer(), command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=2))
        await peer.answers()
        gate.set()
        assert await peer.answers() == []

    async def test_a_failed_creation_can_be_repeated(self) -> None:
        broker = make_broker()
        broker.service.failure = ProducerBusy("Producer with name 'p' is already connected to topic 't'")
        peer = await connected(broker)
        peer.say(producer())
        answer = (await peer.answer()).error
        assert (answer.error, answer.message) == (pb.ProducerBusy, str(broker.service.failure))
        broker.service.failure = None
        peer.say(producer(request_id=2))
        assert (await peer.answer()).type == Type.PRODUCER_SUCCESS

    async def test_an_unforeseen_failure_is_an_unknown_error_and_the_connection_lives(self) -> None:
        broker = make_broker()
        broker.service.failure = ZeroDivisionError("ours")
        peer = await connected(broker)
        peer.say(producer())
        answer = (await peer.answer()).error
        assert (answer.error, answer.message) == (pb.UnknownError, "ours")
        assert not peer.is_closed

    @pytest.mark.parametrize("made", [producer(topic="persistent://x"), subscribe(topic="persistent://x")])
    async def test_a_bad_topic_name(self, made: pb.BaseCommand) -> None:
        peer = await connected()
        peer.say(made)
        answer = (await peer.answer()).error
        assert answer.error == pb.InvalidTopicName
        assert answer.message.startswith("Invalid topic name: ")

    async def test_close_waits_for_what_the_producer_still_does(self) -> None:
        peer, made = await producing()
        made.closing = asyncio.get_running_loop().create_future()
        peer.say(command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=2))
        assert await peer.answers() == []
        made.closing.set_result(None)
        assert (await peer.answer()).success.request_id == 2

    @pytest.mark.parametrize(
        "made",
        [
            command("CLOSE_PRODUCER", "close_producer", producer_id=99, request_id=15),
            command("CLOSE_CONSUMER", "close_consumer", consumer_id=99, request_id=15),
        ],
    )
    async def test_closing_what_is_unknown_succeeds(self, made: pb.BaseCommand) -> None:
        peer = await connected()
        peer.say(made)
        assert (await peer.answer()).success.request_id == 15


class TestSend:
    async def test_a_wrong_checksum_is_refused_and_the_rest_goes_on(self) -> None:
        peer, made = await producing()
        good = build_payload(metadata(), b"hello")
        bad = good[:-1] + b"!"
        frames = [
            send_frame(pb.CommandSend(producer_id=1, sequence_id=index), payload)
            for index, payload in enumerate([good, bad, good])
        ]
        peer.feed(b"".join(frames))
        answer = (await peer.answer()).send_error
        assert answer == pb.CommandSendError(
            producer_id=1, sequence_id=1, error=pb.ChecksumError, message="Checksum failed on the broker"
        )
        assert made.sequence_ids == [0, 2]
        assert not peer.is_closed

    async def test_the_error_of_a_batch_carries_its_highest_sequence_id(self) -> None:
        peer, _ = await producing()
        bad = build_payload(metadata(), b"x")[:-1] + b"y"
        peer.feed(send_frame(pb.CommandSend(producer_id=1, sequence_id=3, highest_sequence_id=9), bad))
        assert (await peer.answer()).send_error.sequence_id == 9

    async def test_a_payload_without_checksum_is_accepted(self) -> None:
        peer, made = await producing()
        peer.feed(
            send_frame(pb.CommandSend(producer_id=1, sequence_id=0), build_payload(metadata(), b"x", checksum=False))
        )
        assert made.sequence_ids == [0]

    @pytest.mark.parametrize(
        ("send", "text"),
        [
            (
                pb.CommandSend(producer_id=1, sequence_id=4, message_id=pb.MessageIdData(ledgerId=1, entryId=1)),
                "Only shadow topic supports sending messages with messageId",
            ),
            (
                pb.CommandSend(producer_id=1, sequence_id=4, txnid_least_bits=1, txnid_most_bits=0),
                "Transactions are not enabled.",
            ),
        ],
    )
    async def test_what_is_not_allowed_in_a_send(self, send: pb.CommandSend, text: str) -> None:
        peer, made = await producing()
        peer.feed(send_frame(send, build_payload(metadata(), b"x")))
        answer = (await peer.answer()).send_error
        assert (answer.error, answer.message) == (pb.NotAllowedError, text)
        assert made.groups == []

    async def test_a_body_above_the_limit_is_not_allowed_and_one_at_the_limit_is(self) -> None:
        peer, made = await producing(make_broker(max_message_size=2000))
        for sequence_id, size in enumerate([2000, 2001]):
            payload = build_payload(metadata(), bytes(size))
            peer.feed(send_frame(pb.CommandSend(producer_id=1, sequence_id=sequence_id), payload))
        assert made.sequence_ids == [0]
        assert (await peer.answer()).send_error.error == pb.NotAllowedError

    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"\x0e\x01\x00",
            struct.pack(">I", 100) + b"short",
            build_broker_entry_metadata(pb.BrokerEntryMetadata(index=1)) + build_payload(metadata(), b"x"),
        ],
    )
    async def test_a_payload_that_could_not_be_read_back_closes(self, payload: bytes) -> None:
        peer, made = await producing()
        frame = send_frame(pb.CommandSend(producer_id=1, sequence_id=0), payload)
        peer.feed(frame)
        answers = await peer.answers()
        assert [answer.send_error.error for answer in answers] in ([], [pb.ChecksumError])
        assert peer.is_closed or answers
        assert made.groups == []

    async def test_metadata_that_reaches_beyond_a_well_summed_payload_closes(self) -> None:
        peer, made = await producing()
        lie = struct.pack(">I", 1000) + b"tiny"
        peer.feed(
            send_frame(pb.CommandSend(producer_id=1, sequence_id=0), b"\x0e\x01" + struct.pack(">I", crc32c(lie)) + lie)
        )
        assert peer.is_closed
        assert made.groups == []

    async def test_an_unknown_producer_closes_after_what_came_before(self) -> None:
        peer, made = await producing()
        payload = build_payload(metadata(), b"x")
        frames = [send_frame(pb.CommandSend(producer_id=index, sequence_id=0), payload) for index in (1, 2, 1)]
        peer.feed(b"".join(frames))
        assert len(made.sequence_ids) == 1
        assert peer.is_closed

    async def test_a_producer_that_is_still_pending_counts_as_unknown(self) -> None:
        broker = make_broker()
        broker.service.gate = asyncio.Event()
        peer = await connected(broker)
        peer.say(producer())
        peer.feed(send_frame(pb.CommandSend(producer_id=1, sequence_id=0), build_payload(metadata(), b"x")))
        assert peer.is_closed

    async def test_an_unusual_order_of_fields_is_still_a_send(self) -> None:
        peer, made = await producing()
        body = pb.CommandSend(producer_id=1, sequence_id=7).SerializeToString()
        encoded = b"\x32" + bytes([len(body)]) + body + b"\x08\x06"
        payload = build_payload(metadata(), b"x")
        peer.feed(struct.pack(">II", 4 + len(encoded) + len(payload), len(encoded)) + encoded + payload)
        assert made.sequence_ids == [7]


class TestSubscribe:
    async def test_success_and_success_again_for_a_live_id(self) -> None:
        broker = make_broker()
        peer, _ = await subscribed(broker)
        peer.say(subscribe(request_id=2))
        assert (await peer.answer()).success.request_id == 2
        assert len(broker.service.topic(TOPIC).consumers) == 1

    async def test_no_topic_and_no_creation(self) -> None:
        peer = await connected()
        peer.say(subscribe(topic="persistent://public/default/nope", force_topic_creation=False))
        answer = (await peer.answer()).error
        assert (answer.error, answer.message) == (
            pb.TopicNotFound,
            "Topic persistent://public/default/nope does not exist",
        )

    async def test_no_namespace(self) -> None:
        peer = await connected()
        peer.say(subscribe(topic="persistent://public/nons/x", force_topic_creation=False))
        answer = (await peer.answer()).error
        assert (answer.error, answer.message) == (pb.TopicNotFound, "Namespace not found")

    async def test_metadata_above_a_kilobyte(self) -> None:
        peer = await connected()
        peer.say(subscribe(metadata=[pb.KeyValue(key="k", value="é" * 512)]))
        assert (await peer.answer()).error.error == pb.MetadataError

    async def test_close_while_pending_succeeds_and_abandons_the_subscription(self) -> None:
        broker = make_broker()
        gate = broker.service.gate = asyncio.Event()
        peer = await connected(broker)
        peer.say(subscribe(request_id=1), subscribe(request_id=2))
        await settle()
        peer.say(command("CLOSE_CONSUMER", "close_consumer", consumer_id=1, request_id=3))
        refused, closed = await peer.answers()
        assert (refused.error.request_id, refused.error.error) == (2, pb.ServiceNotReady)
        assert closed.success.request_id == 3
        gate.set()
        assert await peer.answers() == []
        assert [each.closed for each in broker.service.topic(TOPIC).consumers] == [1]


class TestConsumer:
    async def test_flow_reaches_the_consumer_and_unknown_ones_are_ignored(self) -> None:
        peer, consumer = await subscribed()
        peer.say(
            command("FLOW", "flow", consumer_id=1, messagePermits=1000),
            command("FLOW", "flow", consumer_id=2, messagePermits=1),
        )
        assert consumer.permits == [1000]
        assert not peer.is_closed

    @pytest.mark.parametrize("permits", [0, 2**31, 2**32 - 1])
    async def test_permits_that_are_not_positive_close(self, permits: int) -> None:
        peer, consumer = await subscribed()
        peer.say(command("FLOW", "flow", consumer_id=1, messagePermits=permits))
        assert peer.is_closed
        assert consumer.permits == []

    async def test_an_ack_without_request_id_has_no_answer(self) -> None:
        peer, consumer = await subscribed()
        peer.say(command("ACK", "ack", consumer_id=1, ack_type=0, message_id=[pb.MessageIdData(ledgerId=1, entryId=2)]))
        assert await peer.answers() == []
        assert consumer.acks[0].message_id[0].entryId == 2

    async def test_an_ack_of_an_unknown_consumer_is_silent_even_with_request_id(self) -> None:
        peer = await connected()
        peer.say(command("ACK", "ack", consumer_id=99, ack_type=0, request_id=12))
        assert await peer.answers() == []
        assert not peer.is_closed

    async def test_ack_response_comes_when_the_ack_is_durable(self) -> None:
        peer, consumer = await subscribed()
        peer.say(command("ACK", "ack", consumer_id=1, ack_type=0, request_id=4))
        assert (await peer.answer()).ackResponse.request_id == 4
        consumer.durable = asyncio.get_running_loop().create_future()
        peer.say(command("ACK", "ack", consumer_id=1, ack_type=0, request_id=5))
        assert await peer.answers() == []
        consumer.durable.set_result(None)
        answer = (await peer.answer()).ackResponse
        assert (answer.consumer_id, answer.request_id, answer.HasField("error")) == (1, 5, False)

    async def test_an_ack_that_cannot_be_made_durable_says_so(self) -> None:
        peer, consumer = await subscribed()
        consumer.durable = asyncio.get_running_loop().create_future()
        consumer.durable.set_exception(MetadataFault("store closed"))
        peer.say(command("ACK", "ack", consumer_id=1, ack_type=0, request_id=5))
        answer = (await peer.answer()).ackResponse
        assert (answer.request_id, answer.error, answer.message) == (5, pb.MetadataError, "store closed")

    async def test_redeliver_reaches_the_consumer(self) -> None:
        peer, consumer = await subscribed()
        for consumer_id in (1, 2):
            peer.say(
                command("REDELIVER_UNACKNOWLEDGED_MESSAGES", "redeliverUnacknowledgedMessages", consumer_id=consumer_id)
            )
        assert len(consumer.redelivered) == 1

    async def test_unsubscribe(self) -> None:
        peer, consumer = await subscribed()
        consumer.failure = MetadataFault("Unconnected or shared consumer attempting to unsubscribe")
        made = command("UNSUBSCRIBE", "unsubscribe", consumer_id=1, request_id=2)
        peer.say(made)
        answer = (await peer.answer()).error
        assert (answer.error, answer.message) == (pb.MetadataError, str(consumer.failure))
        consumer.failure = None
        peer.say(made)
        assert (await peer.answer()).success.request_id == 2
        peer.say(made)
        answer = (await peer.answer()).error
        assert (answer.error, answer.message) == (pb.MetadataError, "Consumer not found")

    async def test_closing_a_consumer(self) -> None:
        peer, consumer = await subscribed()
        peer.say(command("CLOSE_CONSUMER", "close_consumer", consumer_id=1, request_id=2))
        assert (await peer.answer()).success.request_id == 2
        assert consumer.closed == 1
        assert peer.connection.consumers == {}


class TestPositions:
    async def test_seek_closes_the_consumer_first_and_then_succeeds(self) -> None:
        peer, _ = await subscribed()
        peer.say(command("SEEK", "seek", consumer_id=1, request_id=2, message_publish_time=5))
        closed, success = await peer.answers()
        assert (closed.close_consumer.consumer_id, closed.close_consumer.request_id) == (1, 2**64 - 1)
        assert success.success.request_id == 2

    @pytest.mark.parametrize(
        ("values", "text"),
        [
            ({"consumer_id": 1}, "Message id and message publish time were not present"),
            ({"consumer_id": 99, "message_publish_time": 1}, "Consumer not found"),
        ],
    )
    async def test_a_seek_that_makes_no_sense(self, values: dict[str, int], text: str) -> None:
        peer, _ = await subscribed()
        peer.say(command("SEEK", "seek", request_id=17, **values))
        answer = (await peer.answer()).error
        assert (answer.request_id, answer.error, answer.message) == (17, pb.MetadataError, text)

    @pytest.mark.parametrize(
        ("values", "begins"),
        [
            ({"message_id": pb.MessageIdData(ledgerId=1, entryId=1)}, "Error when resetting subscription: "),
            ({"message_publish_time": 1}, "Reset subscription to publish time error: "),
        ],
    )
    async def test_a_seek_that_fails_is_an_unknown_error(self, values: dict[str, Any], begins: str) -> None:
        peer, consumer = await subscribed()
        consumer.failure = ServiceNotReady("no")
        peer.say(command("SEEK", "seek", consumer_id=1, request_id=2, **values))
        answer = (await peer.answer()).error
        assert (answer.error, answer.message) == (pb.UnknownError, begins + "no")

    async def test_last_message_id(self) -> None:
        peer, consumer = await subscribed()
        made = command("GET_LAST_MESSAGE_ID", "getLastMessageId", consumer_id=1, request_id=60)
        peer.say(made)
        await settle()
        assert peer.transport.taken.endswith(bytes.fromhex(CAPTURED_LAST_MESSAGE_ID))
        await peer.answers()
        consumer.position = (EARLIEST, -1, -1, Position(27, -1))
        peer.say(made)
        empty = (await peer.answer()).getLastMessageIdResponse
        assert (empty.last_message_id.ledgerId, empty.last_message_id.entryId) == (2**64 - 1, 2**64 - 1)
        assert empty.consumer_mark_delete_position.entryId == 2**64 - 1

    async def test_last_message_id_of_an_unknown_consumer(self) -> None:
        peer = await connected()
        peer.say(command("GET_LAST_MESSAGE_ID", "getLastMessageId", consumer_id=99, request_id=18))
        assert (await peer.answer()).error.error == pb.MetadataError

    async def test_consumer_stats_of_an_unknown_consumer(self) -> None:
        peer = await connected()
        peer.say(command("CONSUMER_STATS", "consumerStats", consumer_id=99, request_id=40))
        answer = (await peer.answer()).consumerStatsResponse
        assert (answer.request_id, answer.error_code) == (40, pb.ConsumerNotFound)


class TestLookup:
    async def test_the_owner_is_this_broker(self) -> None:
        peer = await connected()
        peer.say(command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=2, advertised_listener_name=""))
        assert (await peer.answer()).lookupTopicResponse == pb.CommandLookupTopicResponse(
            brokerServiceUrl="pulsar://127.0.0.1:6650",
            response=pb.CommandLookupTopicResponse.Connect,
            request_id=2,
            authoritative=True,
            proxy_through_service_url=True,
        )

    @pytest.mark.parametrize(
        ("values", "code", "text"),
        [
            ({"topic": "persistent://public/nons/x"}, pb.TopicNotFound, "Namespace not found"),
            (
                {"topic": "bad://x//y"},
                pb.InvalidTopicName,
                "Invalid topic name: Invalid topic domain: 'bad' of 'bad://x//y'",
            ),
            (
                {"topic": TOPIC, "advertised_listener_name": "nope"},
                pb.ServiceNotReady,
                "the broker do not have nope listener",
            ),
        ],
    )
    async def test_lookups_that_fail(self, values: dict[str, str], code: int, text: str) -> None:
        peer = await connected()
        peer.say(command("LOOKUP", "lookupTopic", request_id=4, **values))
        answer = (await peer.answer()).lookupTopicResponse
        assert answer.response == pb.CommandLookupTopicResponse.Failed
        assert (answer.request_id, answer.error, answer.message) == (4, code, text)

    async def test_lookups_of_all_connections_are_bounded(self) -> None:
        broker = make_broker(max_concurrent_lookup_request=1)
        broker.service.gate = asyncio.Event()
        first, second = await connected(broker), await connected(broker)
        made = command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=4)
        first.say(made)
        await settle()
        second.say(made)
        assert (await second.answer()).lookupTopicResponse.error == pb.TooManyRequests
        broker.service.gate.set()
        assert (await first.answer()).lookupTopicResponse.response == pb.CommandLookupTopicResponse.Connect
        second.say(made)
        assert (await second.answer()).lookupTopicResponse.response == pb.CommandLookupTopicResponse.Connect


class TestPartitionedMetadata:
    @pytest.mark.parametrize(
        ("topic", "may_create", "expected"),
        [
            ("partitioned", True, 3),
            ("stored", False, 0),
            ("missing", True, 0),
        ],
    )
    async def test_counts(self, topic: str, may_create: bool, expected: int) -> None:
        broker = make_broker()
        broker.service.partitions["persistent://public/default/partitioned"] = 3
        broker.service.stored.add("persistent://public/default/stored")
        peer = await connected(broker)
        peer.say(
            command(
                "PARTITIONED_METADATA",
                "partitionMetadata",
                topic=topic,
                request_id=1,
                metadata_auto_creation_enabled=may_create,
            )
        )
        answer = (await peer.answer()).partitionMetadataResponse
        assert answer.response == pb.CommandPartitionedTopicMetadataResponse.Success
        assert answer.partitions == expected
        assert broker.service.topics == {}, "nothing is created by asking"

    @pytest.mark.parametrize(
        ("topic", "code", "text"),
        [
            ("persistent://public/default/nope", pb.TopicNotFound, None),
            ("bad://x//y", pb.InvalidTopicName, "Invalid topic name: Invalid topic domain: 'bad' of 'bad://x//y'"),
            ("persistent://public/nons/x", pb.TopicNotFound, "Namespace not found"),
        ],
    )
    async def test_failures(self, topic: str, code: int, text: str | None) -> None:
        peer = await connected()
        peer.say(
            command(
                "PARTITIONED_METADATA",
                "partitionMetadata",
                topic=topic,
                request_id=1,
                metadata_auto_creation_enabled=False,
            )
        )
        answer = (await peer.answer()).partitionMetadataResponse
        assert answer.response == pb.CommandPartitionedTopicMetadataResponse.Failed
        assert answer.error == code
        assert text in (None, answer.message)

    async def test_without_automatic_creation_a_missing_topic_is_not_found(self) -> None:
        broker = make_broker()
        broker.service.settings = TopicSettings(allow_auto_topic_creation=False)
        peer = await connected(broker)
        peer.say(command("PARTITIONED_METADATA", "partitionMetadata", topic="missing", request_id=1))
        assert (await peer.answer()).partitionMetadataResponse.error == pb.TopicNotFound


class TestTopicsOfNamespace:
    PARTS = tuple(f"persistent://public/default/parts-partition-{index}" for index in range(3))

    async def ask(self, topics: set[str], **values: Any) -> pb.CommandGetTopicsOfNamespaceResponse:
        broker = make_broker()
        broker.service.stored |= topics
        peer = await connected(broker)
        values = {"request_id": 1, "namespace": "public/default", **values}
        peer.say(command("GET_TOPICS_OF_NAMESPACE", "getTopicsOfNamespace", **values))
        return (await peer.answer()).getTopicsOfNamespaceResponse

    async def test_a_pattern_filters_and_the_hash_is_the_captured_one(self) -> None:
        other = "persistent://public/default/other"
        answer = await self.ask({*self.PARTS, other}, topics_pattern="persistent://public/default/parts.*")
        assert tuple(answer.topics) == self.PARTS
        assert (answer.filtered, answer.topics_hash, answer.changed) == (True, "a6b6622d", True)

    async def test_the_same_hash_sends_no_names(self) -> None:
        answer = await self.ask(
            set(self.PARTS), topics_pattern="persistent://public/default/parts.*", topics_hash="a6b6622d"
        )
        assert (list(answer.topics), answer.filtered, answer.topics_hash, answer.changed) == (
            [],
            True,
            "a6b6622d",
            False,
        )

    async def test_without_a_pattern_everything_but_system_topics_is_listed(self) -> None:
        answer = await self.ask({"persistent://public/default/__change_events", "persistent://public/default/__mine"})
        assert list(answer.topics) == ["persistent://public/default/__mine"]
        assert not answer.filtered

    @pytest.mark.parametrize(
        ("mode", "listed"),
        [
            (pb.CommandGetTopicsOfNamespace.PERSISTENT, ["persistent://public/default/a"]),
            (pb.CommandGetTopicsOfNamespace.NON_PERSISTENT, ["non-persistent://public/default/b"]),
            (
                pb.CommandGetTopicsOfNamespace.ALL,
                ["non-persistent://public/default/b", "persistent://public/default/a"],
            ),
        ],
    )
    async def test_modes(self, mode: int, listed: list[str]) -> None:
        answer = await self.ask({"persistent://public/default/a", "non-persistent://public/default/b"}, mode=mode)
        assert list(answer.topics) == listed


class TestSchemasAndTheRest:
    async def test_a_topic_without_schema(self) -> None:
        peer = await connected()
        peer.say(command("GET_SCHEMA", "getSchema", request_id=26, topic="persistent://public/default/schem"))
        answer = (await peer.answer()).getSchemaResponse
        assert (answer.request_id, answer.error_code, answer.error_message) == (
            26,
            pb.TopicNotFound,
            "Topic not found or no-schema persistent://public/default/schem",
        )

    async def test_an_empty_schema_version(self) -> None:
        peer = await connected()
        peer.say(command("GET_SCHEMA", "getSchema", request_id=26, topic=TOPIC, schema_version=b""))
        assert (await peer.answer()).getSchemaResponse.error_code == pb.IncompatibleSchema

    async def test_get_or_create_schema(self) -> None:
        peer, _ = await producing()
        schema = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
        for topic in (TOPIC, "persistent://public/default/notloaded"):
            peer.say(command("GET_OR_CREATE_SCHEMA", "getOrCreateSchema", request_id=31, topic=topic, schema=schema))
        loaded, missing = (each.getOrCreateSchemaResponse for each in await peer.answers())
        assert (loaded.schema_version, loaded.HasField("error_code")) == (b"", False)
        assert (missing.error_code, missing.error_message) == (
            pb.TopicNotFound,
            "Topic not found persistent://public/default/notloaded",
        )

    @pytest.mark.parametrize(
        ("kind", "field", "values"),
        [
            ("NEW_TXN", "newTxn", {}),
            ("ADD_PARTITION_TO_TXN", "addPartitionToTxn", {}),
            ("ADD_SUBSCRIPTION_TO_TXN", "addSubscriptionToTxn", {}),
            ("END_TXN", "endTxn", {}),
            ("END_TXN_ON_PARTITION", "endTxnOnPartition", {}),
            ("END_TXN_ON_SUBSCRIPTION", "endTxnOnSubscription", {}),
            ("TC_CLIENT_CONNECT_REQUEST", "tcClientConnectRequest", {"tc_id": 0}),
        ],
    )
    async def test_transactions_are_not_enabled(self, kind: str, field: str, values: dict[str, int]) -> None:
        peer = await connected()
        peer.say(command(kind, field, request_id=34, **values))
        answer = (await peer.answer()).error
        assert (answer.request_id, answer.error, answer.message) == (
            34,
            pb.NotAllowedError,
            "Transactions are not enabled.",
        )

    async def test_topic_watchers_are_refused_and_their_close_succeeds(self) -> None:
        peer = await connected()
        peer.say(
            command(
                "WATCH_TOPIC_LIST",
                "watchTopicList",
                request_id=1,
                watcher_id=1,
                namespace="public/default",
                topics_pattern="a",
            ),
            command("WATCH_TOPIC_LIST_CLOSE", "watchTopicListClose", request_id=2, watcher_id=1),
        )
        refused, closed = await peer.answers()
        assert (refused.error.request_id, refused.error.error) == (1, pb.NotAllowedError)
        assert closed.success.request_id == 2
