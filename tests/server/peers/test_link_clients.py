"""A consumer and a producer at one broker, over a link that the test holds."""

from typing import Any

import pytest

from magnetar.server.peers.link_consumer import LinkConsumer, subscribe_over
from magnetar.server.peers.link_producer import LinkProducer, produce_over
from magnetar.server.peers.peer_errors import PeerTimeoutError, PeerUnreachableError
from magnetar.server.peers.peer_link import LinkState
from magnetar.server.peers.permit_rules import BYTES_AHEAD_MAX, PERMITS_MAX, ConsumerPermits
from pulsar_proto.errors import ConsumerBusy
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import parse_command
from pulsar_proto.wire.framing import FrameReader
from tests.server.fakes import command

Type = pb.BaseCommand
HANDLER_ID = 77
OWN_ID = 5


class FakeLink:
    """A link whose only handler has the id HANDLER_ID."""

    url = "pulsar://fake:6650"

    def __init__(self) -> None:
        self.state = LinkState.READY
        self.handler: Any = None
        self.sent: list[pb.BaseCommand] = []
        self.told: list[pb.BaseCommand] = []
        self.fault: Exception | None = None
        self.closes_at_once = False

    def attach_consumer(self, handler: Any) -> int:
        self.handler = handler
        return HANDLER_ID

    attach_producer = attach_consumer

    def detach(self, handler_id: int) -> None:
        assert handler_id == HANDLER_ID
        self.handler = None

    def send(self, data: bytes) -> None:
        reader = FrameReader()
        reader.get_buffer()[: len(data)] = data
        self.sent += [parse_command(head) for head, _ in reader.received(len(data))]

    async def request(self, asked: pb.BaseCommand, field: str, seconds: float) -> pb.BaseCommand:
        self.sent.append(asked)
        if self.fault is not None:
            raise self.fault
        if self.closes_at_once:
            self.say("CLOSE_CONSUMER", "close_consumer", consumer_id=HANDLER_ID, request_id=1)
        success = pb.CommandProducerSuccess(request_id=1, producer_name="made", last_sequence_id=9)
        return pb.BaseCommand(type=Type.PRODUCER_SUCCESS, producer_success=success)

    def say(self, kind: str, field: str, payload: bytes | None = None, **values: Any) -> None:
        self.handler.on_command(command(kind, field, **values), payload)

    def message(self, entry_id: int, size: int = 1, batch: int = 1, **values: Any) -> None:
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=batch)
        payload = build_payload(metadata, b"x" * size)
        message_id = pb.MessageIdData(ledgerId=1, entryId=entry_id)
        self.say("MESSAGE", "message", payload, consumer_id=HANDLER_ID, message_id=message_id, **values)

    def take(self, told: pb.BaseCommand, payload: bytes | None = None) -> None:
        self.told.append(told)

    def told_entries(self) -> list[int]:
        assert all(each.message.consumer_id == OWN_ID for each in self.told)
        return [each.message.message_id.entryId for each in self.told]

    def sent_kinds(self) -> list[str]:
        return [Type.Type.Name(each.type) for each in self.sent]


async def consumer_of(link: FakeLink, sub_type: pb.CommandSubscribe.SubType.ValueType) -> LinkConsumer:
    asked = pb.CommandSubscribe(topic="t", subscription="s", subType=sub_type, consumer_id=OWN_ID, request_id=0)
    made: Any = link
    consumer = await subscribe_over(made, asked, link.take)
    assert (link.sent[-1].subscribe.consumer_id, asked.consumer_id) == (HANDLER_ID, OWN_ID)
    return consumer


async def producer_of(link: FakeLink) -> LinkProducer:
    made: Any = link
    return await produce_over(made, pb.CommandProducer(topic="t", producer_id=OWN_ID, request_id=0), link.take)


class TestConsumer:
    async def test_messages_that_were_sent_before_the_broker_heard_of_a_redelivery_are_dropped(self) -> None:
        """They come again. A broker without epochs, which says none, is believed."""
        link = FakeLink()
        consumer = await consumer_of(link, pb.CommandSubscribe.Failover)
        link.message(0, consumer_epoch=0)
        consumer.redeliver(pb.CommandRedeliverUnacknowledgedMessages())
        assert link.sent[-1].redeliverUnacknowledgedMessages.consumer_epoch == 1
        link.message(1, consumer_epoch=0)
        link.message(0, consumer_epoch=1)
        link.message(2)
        assert link.told_entries() == [0, 0, 2]

    async def test_shared_subscriptions_have_no_epoch(self) -> None:
        link = FakeLink()
        consumer = await consumer_of(link, pb.CommandSubscribe.Shared)
        consumer.redeliver(
            pb.CommandRedeliverUnacknowledgedMessages(message_ids=[pb.MessageIdData(ledgerId=1, entryId=2)])
        )
        assert not link.sent[0].subscribe.HasField("consumer_epoch")
        assert not link.sent[-1].redeliverUnacknowledgedMessages.HasField("consumer_epoch")

    async def test_the_broker_gets_permits_for_what_came_and_fewer_for_large_messages(self) -> None:
        link = FakeLink()
        consumer = await consumer_of(link, pb.CommandSubscribe.Exclusive)
        consumer.flow(10)
        assert (consumer.permits, link.sent[-1].flow.messagePermits) == (10, 10)
        for entry_id in range(8):
            link.message(entry_id, 1 << 20)
        assert consumer.permits == 2
        consumer.flow(1000)
        assert link.sent_kinds() == ["SUBSCRIBE", "FLOW"], "two large messages are under way"
        link.message(8, 1 << 20)
        link.message(9, 1 << 20)
        consumer.flow(1000)
        assert link.sent[-1].flow.messagePermits == 1

    async def test_messages_of_a_batch_that_were_acknowledged_before_use_no_permits(self) -> None:
        link = FakeLink()
        consumer = await consumer_of(link, pb.CommandSubscribe.Shared)
        consumer.flow(20)
        link.message(0, batch=10)
        assert consumer.permits == 10
        link.message(1, batch=10, ack_set=[0b11, -(1 << 63)])
        assert consumer.permits == 7

    async def test_a_lost_consumer_is_told_once_and_sends_nothing_more(self) -> None:
        link = FakeLink()
        consumer = await consumer_of(link, pb.CommandSubscribe.Exclusive)
        handler = link.handler
        handler.on_link_closed(PeerUnreachableError("gone"))
        handler.on_link_closed(PeerUnreachableError("gone"))
        (told,) = link.told
        assert (told.type, told.close_consumer.consumer_id) == (Type.CLOSE_CONSUMER, OWN_ID)
        sent = len(link.sent)
        consumer.ack(pb.CommandAck(ack_type=pb.CommandAck.Individual))
        consumer.flow(10)
        consumer.redeliver(pb.CommandRedeliverUnacknowledgedMessages())
        assert len(link.sent) == sent

    @pytest.mark.parametrize("fault", [ConsumerBusy("taken"), PeerTimeoutError("silent")])
    async def test_a_consumer_that_was_not_confirmed_is_closed_at_the_broker(self, fault: Exception) -> None:
        link = FakeLink()
        link.fault = fault
        with pytest.raises(type(fault)):
            await consumer_of(link, pb.CommandSubscribe.Exclusive)
        assert link.sent_kinds() == ["SUBSCRIBE", "CLOSE_CONSUMER"]
        assert (link.handler, link.told) == (None, [])

    async def test_a_consumer_that_the_broker_closes_before_it_is_used_was_not_made(self) -> None:
        link = FakeLink()
        link.closes_at_once = True
        with pytest.raises(PeerUnreachableError):
            await consumer_of(link, pb.CommandSubscribe.Exclusive)
        assert link.told == []


class TestProducer:
    async def test_messages_go_out_in_one_write_and_receipts_come_back_under_the_own_id(self) -> None:
        link = FakeLink()
        producer = await producer_of(link)
        assert (producer.name, producer.last_sequence_id) == ("made", 9)
        sends = [(pb.CommandSend(producer_id=OWN_ID, sequence_id=number), b"payload") for number in (10, 11)]
        producer.publish(sends)
        assert [(each.send.producer_id, each.send.sequence_id) for each in link.sent[1:]] == [
            (HANDLER_ID, 10),
            (HANDLER_ID, 11),
        ]
        link.say("SEND_RECEIPT", "send_receipt", producer_id=HANDLER_ID, sequence_id=10)
        assert [each.send_receipt.producer_id for each in link.told] == [OWN_ID]

    async def test_only_a_refusal_that_would_come_again_reaches_the_user(self) -> None:
        link = FakeLink()
        producer = await producer_of(link)
        values: dict[str, Any] = {"producer_id": HANDLER_ID, "sequence_id": 10, "message": "no"}
        for error in (pb.NotAllowedError, pb.MetadataError, pb.TopicTerminatedError):
            link.say("SEND_ERROR", "send_error", error=error, **values)
            assert (link.told[-1].type, link.told[-1].send_error.producer_id) == (Type.SEND_ERROR, OWN_ID)
        assert not producer.is_closed
        link.say("SEND_ERROR", "send_error", error=pb.PersistenceError, **values)
        assert (link.told[-1].type, link.told[-1].close_producer.producer_id) == (Type.CLOSE_PRODUCER, OWN_ID)
        assert producer.is_closed
        assert link.sent_kinds()[-1] == "CLOSE_PRODUCER"

    async def test_a_closed_producer_tells_and_sends_nothing(self) -> None:
        link = FakeLink()
        producer = await producer_of(link)
        producer.close()
        producer.close()
        producer.publish([(pb.CommandSend(producer_id=OWN_ID, sequence_id=1), b"")])
        producer.give_up("late")
        assert (link.sent_kinds(), link.told) == (["PRODUCER", "CLOSE_PRODUCER"], [])


class TestPermits:
    def test_small_messages_get_as_many_permits_as_are_wanted_up_to_the_most(self) -> None:
        permits = ConsumerPermits()
        for _ in range(50):
            permits.permits += 1
            permits.received(1, 10)
        assert permits.grant(300) == 300
        assert permits.grant(2000) == PERMITS_MAX - 300

    def test_one_permit_is_given_however_large_messages_are(self) -> None:
        permits = ConsumerPermits()
        permits.permits = 1
        permits.received(1, 100 * BYTES_AHEAD_MAX)
        assert [permits.grant(10), permits.grant(10)] == [1, 0]

    def test_a_batch_that_overdraws_the_permits_counts(self) -> None:
        permits = ConsumerPermits()
        assert permits.grant(10) == 10
        permits.received(30, 300)
        assert permits.permits == -20
        assert permits.grant(50) == 50
