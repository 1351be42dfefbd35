"""A producer on one topic: what it keeps, sends again and gives up. The topic is the test's."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from magnetar.server.websocket.answer_queue import Answer
from magnetar.server.websocket.json_message_rules import parse_message_id
from magnetar.server.websocket.partition_producer import FIRST_PAUSE_SECONDS, PartitionProducer
from magnetar.server.websocket.producer_options_rules import ProducerOptions
from magnetar.server.websocket.socket_topics import SocketTopics
from pulsar_proto.errors import AuthorizationFault, PulsarError, QuotaExceeded, ServiceNotReady, TopicTerminated
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.waiting import until

TOPIC = TopicName.parse("persistent://public/default/t-partition-3")


class Outcome(NamedTuple):
    """The outcome of one message: its id, or the text of the error."""

    answer: Answer
    message_id: str
    fault: str = ""


class FakeProducer:
    def __init__(self, command: pb.CommandProducer) -> None:
        self.command = command
        self.name = command.producer_name or "made"
        self.last_sequence_id = 6
        self.is_closed = False
        self.published: list[int] = []

    def publish(self, sends: list[tuple[pb.CommandSend, bytes]]) -> None:
        if not self.is_closed:
            self.published += [send.sequence_id for send, _ in sends]

    def publish_singles(self, first_sequence_id: int, payloads: list[bytes]) -> None:
        if not self.is_closed:
            self.published += range(first_sequence_id, first_sequence_id + len(payloads))

    def close(self) -> None:
        self.is_closed = True


class Scene:
    """A producer, and a topic that admits it or raises what `faults` says, one at each attempt."""

    def __init__(self, **options: Any) -> None:
        self.attached: list[FakeProducer] = []
        self.faults: list[PulsarError] = []
        self.denied: PulsarError | None = None
        self.outcomes: list[Outcome] = []
        self.lost: list[PulsarError] = []
        service = SimpleNamespace(get_for_client=self.topic)
        broker = SimpleNamespace(service=service, spawn=asyncio.ensure_future, ownership=SimpleNamespace(is_sole=True))
        self.client = SimpleNamespace(broker=broker, is_open=True, remote_address="/peer", authorize=self.authorize)
        self.client.guarded = lambda call, *arguments: call(*arguments)
        made: Any = self.client
        told = (self.stored, self.failed, self.lost.append)
        self.producer = PartitionProducer(made, SocketTopics(made, made), TOPIC, 2, ProducerOptions(**options), *told)

    def stored(self, answers: list[Answer], message_ids: list[bytes]) -> None:
        self.outcomes += [Outcome(answer, each.decode()) for answer, each in zip(answers, message_ids, strict=True)]

    def failed(self, answers: list[Answer], fault: str) -> None:
        self.outcomes += [Outcome(answer, "", fault) for answer in answers]

    async def topic(self, name: TopicName) -> Any:
        if self.faults:
            raise self.faults.pop(0)
        return SimpleNamespace(add_producer=self.add)

    async def add(self, client: Any, command: pb.CommandProducer, receipts: Any) -> FakeProducer:
        assert receipts is self.producer
        self.attached.append(FakeProducer(command))
        return self.attached[-1]

    async def authorize(self, operation: Any, topic: TopicName) -> None:
        if self.denied is not None:
            raise self.denied

    def send(self, *sequence_ids: int, at_s: float = 0.0) -> None:
        for sequence_id in sequence_ids:
            self.producer.send(b"payload", [Answer()], sequence_id, sequence_id, at_s)

    def has_attached(self, count: int) -> bool:
        return len(self.attached) == count

    def has_lost(self, error: PulsarError) -> bool:
        return self.lost == [error]

    def receipt(self, sequence_id: int, entry_id: int) -> None:
        self.producer.write_run([(sequence_id, None)], 9, entry_id)

    def disconnect(self) -> None:
        self.attached[-1].is_closed = True
        self.producer.disconnected()


async def opened(**options: Any) -> Scene:
    scene = Scene(**options)
    await scene.producer.open(options.get("producer_name", ""))
    return scene


async def test_sequence_ids_go_on_where_the_name_or_the_application_has_left_off() -> None:
    assert (await opened()).producer.next_sequence_id == 7
    assert (await opened(initial_sequence_id=99)).producer.next_sequence_id == 100


async def test_what_is_sent_in_one_turn_goes_to_the_topic_together_and_is_answered_by_receipts() -> None:
    scene = await opened()
    scene.send(7, 8)
    assert scene.attached[0].published == []
    await until(lambda: scene.attached[0].published == [7, 8])
    scene.receipt(7, 0)
    scene.receipt(7, 0)  # nobody waits for it any more
    assert len(scene.outcomes) == 1
    assert scene.outcomes[0].fault == ""


async def test_each_receipt_of_a_run_answers_its_entry_with_the_position_and_the_partition() -> None:
    scene = await opened()
    scene.send(7, 8)
    scene.producer.send(b"batch", [Answer(), Answer()], 9, 10, 0.0)
    scene.producer.write_run([(7, None), (8, None), (9, 10)], 9, 4)
    ids = [parse_message_id(outcome.message_id) for outcome in scene.outcomes]
    assert [(each.ledgerId, each.entryId, each.partition) for each in ids] == [
        (9, 4, 3),
        (9, 5, 3),
        (9, 6, 3),
        (9, 6, 3),
    ]
    assert [(each.batch_index, each.batch_size) for each in ids] == [(-1, 0), (-1, 0), (0, 2), (1, 2)]


async def test_the_receipts_of_duplicates_carry_the_position_of_no_entry() -> None:
    scene = await opened()
    scene.send(7, 8)
    scene.producer.write_unstored([(7, None), (8, None)], -1, -1)
    ids = [parse_message_id(outcome.message_id) for outcome in scene.outcomes]
    assert [(each.ledgerId, each.entryId) for each in ids] == [(2**64 - 1, 2**64 - 1)] * 2


async def test_a_producer_that_was_closed_comes_back_with_its_name_and_sends_again_what_was_not_answered() -> None:
    scene = await opened()
    scene.send(7, 8, 9)
    await until(lambda: len(scene.attached[0].published) == 3)
    scene.receipt(7, 0)
    scene.faults = [ServiceNotReady("loading")]
    scene.disconnect()
    scene.send(10)
    await until(lambda: len(scene.attached) == 2)
    await until(lambda: scene.attached[1].published == [8, 9, 10])
    command = scene.attached[1].command
    assert (command.producer_name, command.epoch, command.user_provided_producer_name) == ("made", 2, False)
    scene.producer.disconnected()  # late news of the first one
    scene.send(11)
    await until(lambda: scene.attached[1].published == [8, 9, 10, 11])
    assert len(scene.attached) == 2


async def test_a_producer_that_gets_no_receipt_between_two_losses_comes_back_after_a_pause() -> None:
    scene = await opened()
    scene.send(7)
    began_s = asyncio.get_running_loop().time()
    for count in (2, 3):
        scene.disconnect()
        await until(partial(scene.has_attached, count))
    assert asyncio.get_running_loop().time() - began_s >= FIRST_PAUSE_SECONDS


async def test_an_error_that_stays_fails_what_waits_and_ends_the_producer() -> None:
    for error in (TopicTerminated("terminated"), AuthorizationFault("no")):
        scene = await opened()
        scene.send(7, 8)
        scene.denied = error
        scene.disconnect()
        await until(partial(scene.has_lost, error))
        assert [outcome.fault for outcome in scene.outcomes] == [str(error)] * 2


async def test_a_quota_fails_what_waits_and_the_producer_tries_again() -> None:
    scene = await opened()
    scene.send(7)
    scene.faults = [QuotaExceeded("full")]
    scene.disconnect()
    await until(lambda: len(scene.attached) == 2)
    assert [outcome.fault for outcome in scene.outcomes] == ["full"]
    scene.send(8)
    await until(lambda: scene.attached[1].published == [8])


async def test_a_refused_entry_fails_alone() -> None:
    scene = await opened()
    scene.send(7, 8)
    scene.producer.refused(pb.CommandSendError(producer_id=2, sequence_id=7, error=pb.NotAllowedError, message="why"))
    assert [outcome.fault for outcome in scene.outcomes] == ["why"]
    scene.receipt(8, 0)
    assert [outcome.fault for outcome in scene.outcomes] == ["why", ""]


async def test_messages_without_an_answer_are_given_up_after_the_send_timeout() -> None:
    scene = await opened(send_timeout_ms=1_000)
    scene.send(7, at_s=10.0)
    scene.send(8, at_s=10.5)
    scene.producer.give_up(11.2)
    assert ["within given timeout" in outcome.fault for outcome in scene.outcomes] == [True]
    await until(lambda: scene.attached[0].published == [8])  # what has not gone yet goes no more
    for_ever = await opened(send_timeout_ms=0)
    for_ever.send(7)
    for_ever.producer.give_up(1e9)
    assert for_ever.outcomes == []


async def test_a_producer_that_is_closed_while_it_comes_back_leaves_nothing_in_the_topic() -> None:
    scene = await opened()
    scene.disconnect()
    scene.producer.close()
    for _ in range(20):
        await asyncio.sleep(0)
    assert all(each.is_closed for each in scene.attached)
