"""The answers to CONNECT, PRODUCER and SEND have the codes and texts of a Java broker, of a real capture if there is
one."""

import asyncio
import struct

import pytest

from pulsar_proto.checksum import crc32c
from pulsar_proto.errors import ProducerBusy, ServiceNotReady
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame
from tests.pulsar_proto.broker_entry import build_broker_entry_metadata
from tests.server.fakes import Peer, command, make_traffic, settle
from tests.server.protocol.handler_scene import TOPIC, Type, connected, metadata, producer, producing, subscribe


class TestConnect:
    async def test_connected_says_what_this_broker_can(self) -> None:
        peer = Peer(make_traffic(max_message_size=1_000_000)).connect(version=19)
        answer = (await peer.answer()).connected
        assert answer.server_version
        assert (answer.protocol_version, answer.max_message_size) == (19, 1_000_000)
        flags = {field.name for field, value in answer.feature_flags.ListFields() if value}
        assert flags == {"supports_get_partitioned_metadata_without_auto_creation", "supports_topic_watchers"}

    async def test_a_captured_connect_of_the_cpp_client_is_understood(self) -> None:
        peer = Peer(make_traffic())
        peer.feed(
            bytes.fromhex("0000002900000025080212210a1150756c7361722d4350502d76342e322e3020142a046e6f6e65520408011001")
        )
        assert (await peer.answer()).connected.protocol_version == 20
        assert peer.connection.client_version == "Pulsar-CPP-v4.2.0"

    async def test_ping_is_answered_also_before_connect(self) -> None:
        peer = Peer(make_traffic())
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
        traffic = make_traffic()
        peer, _ = await producing(traffic)
        peer.say(producer(request_id=2, producer_name="other"))
        answer = (await peer.answer()).producer_success
        assert (answer.request_id, answer.producer_name) == (2, "standalone-0-1")
        assert len(traffic.broker.service.topic(TOPIC).producers) == 1

    async def test_a_pending_id_is_not_ready(self) -> None:
        traffic = make_traffic()
        gate = traffic.broker.service.gate = asyncio.Event()
        peer = await connected(traffic)
        peer.say(producer(request_id=1), producer(request_id=2))
        answer = (await peer.answer()).error
        assert (answer.request_id, answer.error) == (2, pb.ServiceNotReady)
        gate.set()
        assert (await peer.answer()).producer_success.request_id == 1

    async def test_close_while_pending_succeeds_and_abandons_the_creation(self) -> None:
        traffic = make_traffic()
        gate = traffic.broker.service.gate = asyncio.Event()
        peer = await connected(traffic)
        peer.say(producer(request_id=1))
        await settle()
        peer.say(command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=2))
        assert (await peer.answer()).success.request_id == 2
        peer.say(producer(request_id=3))
        await settle()
        gate.set()
        assert (await peer.answer()).producer_success.request_id == 3
        first, second = traffic.broker.service.topic(TOPIC).producers
        assert (first.closed, second.closed) == (1, 0)
        assert peer.connection.producers == {1: second}

    async def test_a_producer_that_waits_for_others_stops_waiting_when_it_is_closed(self) -> None:
        traffic = make_traffic()
        traffic.broker.service.gate = asyncio.Event()
        peer = await connected(traffic)
        peer.say(producer(producer_access_mode=pb.WaitForExclusive))
        await settle()
        peer.say(command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=2))
        assert (await peer.answer()).success.request_id == 2
        assert not traffic.broker.background_tasks

    @pytest.mark.parametrize("made", [producer(), subscribe()])
    async def test_what_the_topic_closed_before_it_was_told_is_not_ready(self, made: pb.BaseCommand) -> None:
        traffic = make_traffic()
        traffic.broker.service.closes_at_once = True
        peer = await connected(traffic)
        peer.say(made)
        assert (await peer.answer()).error.error == pb.ServiceNotReady
        assert not peer.connection.producers
        assert not peer.connection.consumers

    async def test_a_creation_that_fails_after_its_close_says_nothing(self) -> None:
        traffic = make_traffic()
        gate = traffic.broker.service.gate = asyncio.Event()
        traffic.broker.service.failure = ServiceNotReady("too late")
        peer = await connected(traffic)
        peer.say(producer(), command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=2))
        await peer.answers()
        gate.set()
        assert await peer.answers() == []

    async def test_a_failed_creation_can_be_repeated(self) -> None:
        traffic = make_traffic()
        traffic.broker.service.failure = ProducerBusy("Producer with name 'p' is already connected to topic 't'")
        peer = await connected(traffic)
        peer.say(producer())
        answer = (await peer.answer()).error
        assert (answer.error, answer.message) == (pb.ProducerBusy, str(traffic.broker.service.failure))
        traffic.broker.service.failure = None
        peer.say(producer(request_id=2))
        assert (await peer.answer()).type == Type.PRODUCER_SUCCESS

    async def test_an_unforeseen_failure_is_an_unknown_error_and_the_connection_lives(self) -> None:
        traffic = make_traffic()
        traffic.broker.service.failure = ZeroDivisionError("ours")
        peer = await connected(traffic)
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

    async def test_only_shadow_topics_take_sends_with_a_message_id(self) -> None:
        peer, made = await producing()
        send = pb.CommandSend(producer_id=1, sequence_id=4, message_id=pb.MessageIdData(ledgerId=1, entryId=1))
        peer.feed(send_frame(send, build_payload(metadata(), b"x")))
        answer = (await peer.answer()).send_error
        text = "Only shadow topic supports sending messages with messageId"
        assert (answer.error, answer.message) == (pb.NotAllowedError, text)
        assert made.groups == []

    async def test_a_group_with_a_message_of_a_transaction_is_published_as_such(self) -> None:
        peer, made = await producing()
        transactional: list[int] = []
        made.publish_in_transactions = lambda sends: transactional.extend(send.sequence_id for send, _ in sends)  # type: ignore[method-assign]
        plain = pb.CommandSend(producer_id=1, sequence_id=0)
        in_transaction = pb.CommandSend(producer_id=1, sequence_id=1, txnid_least_bits=1, txnid_most_bits=0)
        frames = [send_frame(each, build_payload(metadata(), b"x")) for each in (plain, in_transaction)]
        peer.feed(frames[0])
        peer.feed(frames[0] + frames[1])
        assert made.sequence_ids == [0]
        assert transactional == [0, 1]

    async def test_a_body_above_the_limit_is_not_allowed_and_one_at_the_limit_is(self) -> None:
        peer, made = await producing(make_traffic(max_message_size=2000))
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

    async def test_a_send_that_does_not_decode_closes_after_what_came_before(self) -> None:
        peer, made = await producing()
        payload = build_payload(metadata(), b"x")
        good = send_frame(pb.CommandSend(producer_id=1, sequence_id=0), payload)
        broken = b"\x08\x06\x32\x02\x08\x01"  # no sequence id
        peer.feed(good + struct.pack(">II", 4 + len(broken) + len(payload), len(broken)) + broken + payload + good)
        assert made.sequence_ids == [0]
        assert peer.is_closed

    async def test_a_producer_that_is_still_pending_counts_as_unknown(self) -> None:
        traffic = make_traffic()
        traffic.broker.service.gate = asyncio.Event()
        peer = await connected(traffic)
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
