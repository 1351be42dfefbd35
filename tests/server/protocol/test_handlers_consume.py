"""The answers to a consumer's commands have the codes and texts of a Java broker, of a real capture if there is one."""

import asyncio
from typing import Any

import pytest

from magnetar.server.protocol import requests
from pulsar_proto.errors import MetadataFault, ServiceNotReady
from pulsar_proto.ids import EARLIEST, Position, TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import Peer, command, make_traffic, settle
from tests.server.protocol.handler_scene import TOPIC, connected, subscribe, subscribed
from tests.waiting import until

CAPTURED_LAST_MESSAGE_ID = (
    "0000002d00000029081ef201240a1a081b100018ffffffffffffffffff0120ffffffffffffffffff01103c1a04081a1002"
)
"""A 4.0.7 broker's answer to request 60: last message 27:0, mark-delete 26:2."""


class TestSubscribe:
    async def test_success_and_success_again_for_a_live_id(self) -> None:
        traffic = make_traffic()
        peer, _ = await subscribed(traffic)
        peer.say(subscribe(request_id=2))
        assert (await peer.answer()).success.request_id == 2
        assert len(traffic.broker.service.topic(TOPIC).consumers) == 1

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
        traffic = make_traffic()
        gate = traffic.broker.service.gate = asyncio.Event()
        peer = await connected(traffic)
        peer.say(subscribe(request_id=1), subscribe(request_id=2))
        await settle()
        peer.say(command("CLOSE_CONSUMER", "close_consumer", consumer_id=1, request_id=3))
        refused, closed = await peer.answers()
        assert (refused.error.request_id, refused.error.error) == (2, pb.ServiceNotReady)
        assert closed.success.request_id == 3
        gate.set()
        assert await peer.answers() == []
        assert [each.closed for each in traffic.broker.service.topic(TOPIC).consumers] == [1]


def ack_in(least: int, request_id: int, consumer_id: int = 1) -> pb.BaseCommand:
    """Returns an ACK of a message in the transaction (0, least)."""
    ids = [pb.MessageIdData(ledgerId=1, entryId=2)]
    in_transaction = {"txnid_least_bits": least, "txnid_most_bits": 0, "request_id": request_id}
    return command("ACK", "ack", consumer_id=consumer_id, ack_type=0, message_id=ids, **in_transaction)


async def ack_responses(peer: Peer, count: int) -> list[pb.CommandAckResponse]:
    """Returns so many answers to ACKs. On a busy machine the commands of one read may have several turns."""
    found: list[pb.CommandAckResponse] = []
    while len(found) < count:
        found += [each.ackResponse for each in await peer.answers()]
    return found


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

    async def test_an_ack_of_an_unknown_consumer_is_refused_if_it_wants_an_answer(self) -> None:
        peer = await connected()
        peer.say(command("ACK", "ack", consumer_id=99, ack_type=0))
        assert await peer.answers() == []
        peer.say(command("ACK", "ack", consumer_id=99, ack_type=0, request_id=12))
        answer = (await peer.answer()).ackResponse
        assert (answer.consumer_id, answer.request_id, answer.error) == (99, 12, pb.ConsumerNotFound)
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

    async def test_acks_of_a_transaction_that_come_together_are_answered_together(self) -> None:
        peer, consumer = await subscribed()
        consumer.durable_together = asyncio.get_running_loop().create_future()
        peer.say(*(ack_in(7, request_id) for request_id in (5, 6)), ack_in(8, 7))
        await until(lambda: len(consumer.acks_asked) == 2)
        assert [(each.txn_id, each.entries) for each in consumer.acks_asked] == [
            (TxnId(0, 7), [(1, 2), (1, 2)]),
            (TxnId(0, 8), [(1, 2)]),
        ]
        assert await peer.answers() == []
        consumer.durable_together.set_result(None)
        answers = await ack_responses(peer, 3)
        assert [(each.consumer_id, each.request_id, each.HasField("error")) for each in answers] == [
            (1, 5, False),
            (1, 6, False),
            (1, 7, False),
        ]
        assert consumer.acks == []

    async def test_each_of_the_acks_of_a_transaction_is_refused_when_they_cannot_be_stored(self) -> None:
        peer, consumer = await subscribed()
        consumer.durable_together = asyncio.get_running_loop().create_future()
        consumer.durable_together.set_exception(MetadataFault("store closed"))
        peer.say(ack_in(7, 5), ack_in(7, 6))
        answers = await ack_responses(peer, 2)
        assert [(each.request_id, each.error, each.message) for each in answers] == [
            (5, pb.MetadataError, "store closed"),
            (6, pb.MetadataError, "store closed"),
        ]

    async def test_acks_of_a_transaction_that_cannot_be_applied_together_are_applied_one_by_one(self) -> None:
        peer, consumer = await subscribed()
        peer.say(*(ack_in(7, request_id) for request_id in (5, 6, 7)), ack_in(7, 8, consumer_id=99))
        answers = await ack_responses(peer, 4)
        assert [(each.request_id, each.error if each.HasField("error") else None) for each in answers] == [
            (5, None),
            (6, None),
            (7, None),
            (8, pb.ConsumerNotFound),
        ]
        assert [each.request_id for each in consumer.acks] == [5, 6, 7]
        assert len(consumer.acks_asked) == 1, "the others are known to come one by one"
        peer.say(ack_in(7, 9))
        assert len(consumer.acks_asked) == 2
        assert (await peer.answer()).ackResponse.request_id == 9

    async def test_acks_of_a_transaction_are_refused_when_too_many_requests_are_in_progress(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(requests, "REQUESTS_MAX", 3)
        peer, consumer = await subscribed()
        consumer.durable = consumer.durable_together = asyncio.get_running_loop().create_future()
        peer.say(*(ack_in(7, request_id) for request_id in (1, 2)))
        peer.say(*(ack_in(7, request_id) for request_id in (3, 4)))
        (refused,) = await ack_responses(peer, 1)
        assert (refused.request_id, refused.error) == (4, pb.TooManyRequests)
        consumer.durable.set_result(None)
        assert [each.request_id for each in await ack_responses(peer, 3)] == [1, 2, 3]
        peer.say(*(ack_in(7, request_id) for request_id in (5, 6, 7)))
        assert [each.request_id for each in await ack_responses(peer, 3)] == [5, 6, 7]

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
