"""A deduplicating topic under random histories: the client repeats itself and loses its connection, and the storage
fails. Whatever happens, each message is in the log once and in order, and answers come in the order of the SENDs."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.policies.effective_policies import of_broker
from magnetar.server.topics.publishing.producer import Producer
from magnetar.storage.managed.managed_ledger_errors import AppendFault
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import parse_metadata
from tests.rounds import rounds
from tests.server.topics.fake_managed_ledger import HEADER
from tests.server.topics.scene import FakeConnection, Scene, in_virtual_time, message, pass_time, settle

STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 4), st.integers(1, 4)),
    st.just(("confirm", 0, 0)),
    st.just(("fail", 0, 0)),
    st.just(("reconnect", 0, 0)),
    st.just(("reload", 0, 0)),
)


class Client:
    """Sends numbered messages and remembers those that were not answered, to send them again after each reconnect."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.cnx = FakeConnection()
        self.producer: Producer | None = None
        self.next_id = 0
        self.unanswered: list[int] = []
        """The numbers without an answer on this connection, in the order of their SENDs."""

    async def connect(self) -> None:
        again = sorted(set(self._take_answers()))
        self.cnx.close("reconnect")
        self.cnx = FakeConnection()
        self.producer = await self.scene.producer(self.cnx, "p")
        self.unanswered = []
        self.send(again)

    def send(self, ids: list[int]) -> None:
        assert self.producer is not None
        if ids:
            self.unanswered += ids
            self.producer.publish(
                [
                    (pb.CommandSend(producer_id=self.producer.producer_id, sequence_id=each), message(each))
                    for each in ids
                ]
            )

    def _take_answers(self) -> list[int]:
        """Checks the order of the answers. Returns the numbers that are still without an answer; refused messages are
        sent again later."""
        answers: list[tuple[int, bool]] = []
        for command, _ in self.cnx.frames:
            if command.type == pb.BaseCommand.SEND_RECEIPT:
                answers.append((command.send_receipt.sequence_id, True))
            elif command.type == pb.BaseCommand.SEND_ERROR:
                answers.append((command.send_error.sequence_id, False))
        assert [each for each, _ in answers] == self.unanswered[: len(answers)]
        stored = set(ids_in_log(self.scene))
        assert {each for each, is_stored in answers if is_stored} <= stored, "answered, and not there"
        refused = [each for each, is_stored in answers if not is_stored]
        return refused + self.unanswered[len(answers) :]

    @property
    def is_closed(self) -> bool:
        return "CLOSE_PRODUCER" in self.cnx.kinds


def ids_in_log(scene: Scene) -> list[int]:
    return [
        parse_metadata(entry, len(HEADER)).sequence_id for entries in scene.ledger.entries.values() for entry in entries
    ]


async def play(steps: list[Any]) -> None:
    scene = Scene(broker_deduplication_enabled=True, broker_deduplication_entries_interval=3)
    await scene.topic.prepare()
    scene.ledger.holds_appends = True
    client = Client(scene)
    await client.connect()
    for kind, back, count in steps:
        if kind == "send":
            first = max(0, client.next_id - back)
            client.next_id = max(client.next_id, first + count)
            client.send(list(range(first, first + count)))
        elif kind in ("confirm", "fail") and scene.ledger.groups_waiting:
            scene.ledger.append_failure = AppendFault("t", "no bookies") if kind == "fail" else None
            while scene.ledger.groups_waiting:
                scene.ledger.confirm()
                if kind == "confirm":
                    break
            scene.ledger.append_failure = None
            await pass_time(20)
        elif kind == "reconnect":
            await client.connect()
        elif kind == "reload":
            while scene.ledger.groups_waiting:
                scene.ledger.confirm()
            client._take_answers()
            scene.load()
            await scene.topic.prepare()
            await client.connect()
        if client.is_closed:
            await client.connect()
        await settle()
    for _ in range(3):
        while scene.ledger.groups_waiting:
            scene.ledger.confirm()
        await pass_time(20)
        await client.connect()
    assert ids_in_log(scene) == list(range(client.next_id))


@settings(max_examples=rounds(80), deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_each_message_stands_in_the_log_once_and_in_order(steps: list[Any]) -> None:
    in_virtual_time(play)(steps)


async def turn_on(before: int, on_way: int, meanwhile: int, confirmed: int, fails: bool) -> None:
    """Turns deduplication on while a client is publishing. `before` messages were confirmed by then, `on_way` more were
    not, and `meanwhile` follow. Some of them are then confirmed or fail, the connection ends, and the client comes
    back."""
    scene = Scene()
    await scene.topic.prepare()
    scene.ledger.holds_appends = True
    client = Client(scene)
    await client.connect()

    def send(count: int) -> None:
        for _ in range(count):
            client.send([client.next_id])
            client.next_id += 1

    def confirm(count: int) -> None:
        for _ in range(min(count, scene.ledger.groups_waiting)):
            scene.ledger.confirm()

    send(before)
    confirm(before)
    send(on_way)
    scene.topic.set_policies(replace(of_broker(scene.settings), deduplication_enabled=True))
    await settle()
    send(meanwhile)
    confirm(confirmed)
    await settle()
    if fails and scene.ledger.groups_waiting:
        scene.ledger.append_failure = AppendFault("t", "no bookies")
        confirm(on_way + meanwhile)
        scene.ledger.append_failure = None
        await pass_time(20)
    status = scene.topic.deduplication.status
    assert status == ("Recovering" if not fails and confirmed < on_way else "Enabled")
    if status == "Recovering":
        with pytest.raises(ServiceNotReady, match="being turned on"):
            await scene.producer(FakeConnection(), "another")
    confirm(on_way + meanwhile)
    await settle()
    client.cnx.frames.clear()  # the connection ended before its receipts came
    client.unanswered = list(range(before, client.next_id))
    await client.connect()
    confirm(on_way + meanwhile)
    await settle()
    assert ids_in_log(scene) == list(range(client.next_id))


@settings(max_examples=rounds(80), deadline=None)
@given(st.integers(0, 3), st.integers(0, 4), st.integers(0, 4), st.integers(0, 8), st.booleans())
def test_what_was_on_its_way_when_deduplication_was_turned_on_counts(
    before: int, on_way: int, meanwhile: int, confirmed: int, fails: bool
) -> None:
    in_virtual_time(turn_on)(before, on_way, meanwhile, confirmed, fails)
