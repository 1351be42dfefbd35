"""The commands of transactions: the bytes of Apache's broker, errors, and who may touch a transaction."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.broker.broker import Broker
from pulsar_proto.ids import TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import Peer, command
from tests.server.protocol.handler_scene import TOPIC, connected
from tests.server.security import scene as security_scene
from tests.server.transactions.scene import MINUTE_MS, Scene, scene
from tests.waiting import until


@asynccontextmanager
async def transactions_of(broker: Broker, folder: Path) -> AsyncIterator[Scene]:
    """Gives the broker a coordinator over real storage."""
    async with scene(folder, MemoryStore()) as behind:
        broker.transactions = behind.coordinators()
        await broker.transactions.start()
        await broker.transactions.connect(0)
        yield behind
        await broker.transactions.close()


async def asked(peer: Peer, kind: str, field: str, **values: Any) -> Any:
    """Sends a command and returns the body of its response."""
    before = len(peer.transport.taken)
    peer.say(command(kind, field, **values))
    await until(lambda: len(peer.transport.taken) > before)
    return getattr(await peer.answer(), field.removesuffix("Request") + "Response")


def has_written(peer: Peer, size: int) -> bool:
    return len(peer.transport.taken) >= size


async def begun(peer: Peer) -> TxnId:
    """Begins a transaction and returns its id."""
    answer = await asked(peer, "NEW_TXN", "newTxn", request_id=1, txn_ttl_millis=MINUTE_MS)
    assert not answer.HasField("error"), answer
    return TxnId(answer.txnid_most_bits, answer.txnid_least_bits)


def of(txn_id: TxnId, **values: Any) -> dict[str, Any]:
    return {"request_id": 2, "txnid_most_bits": txn_id.most, "txnid_least_bits": txn_id.least, **values}


EXCHANGES = (
    # Recorded from Pulsar 4.0.7, with the ids of this test: connect; begin at a coordinator that is not there, and at
    # the first one; add to an unknown transaction; end a transaction; end one that is unknown.
    ("0000000d00000009083ef2030408031000", "0000000b00000007083ffa03020803"),
    (
        "000000110000000d0832920308080510e0d4031807",
        "0000003d0000003908339a03340805180720142a2c5472616e73616374696f6e20636f6f7264696e61746f7220776974682069642037206"
        "e6f7420666f756e6421",
    ),
    ("000000110000000d0832920308080610e0d4031800", "0000000f0000000b08339a0306080610001800"),
    (
        "00000039000000350834a20330080710091800222870657273697374656e743a2f2f7075626c69632f64656661756c742f782d3137393533"
        "3534303939",
        "00000044000000400835aa033b08071009180020182a31546865207472616e73616374696f6e20776974682074686973207478644944206028"
        "302c3929606e6f7420666f756e6420",
    ),
    ("000000110000000d0838c20308080b100018002000", "0000000f0000000b0839ca0306080b10001800"),
    (
        "000000110000000d0838c203080810100018002000",
        "00000044000000400839ca033b08101000180020182a31546865207472616e73616374696f6e20776974682074686973207478644944206028"
        "302c3029606e6f7420666f756e6420",
    ),
)


async def test_answers_are_those_of_apaches_broker_byte_for_byte(tmp_path: Path) -> None:
    peer = await connected()
    async with transactions_of(peer.connection.broker, tmp_path):
        for request, answer in EXCHANGES:
            before = len(peer.transport.taken)
            peer.feed(bytes.fromhex(request))
            await until(partial(has_written, peer, before + len(answer) // 2))
            assert bytes(peer.transport.taken[before:]).hex() == answer


async def test_a_transaction_goes_its_way_from_the_begin_to_the_commit(tmp_path: Path) -> None:
    peer = await connected()
    async with transactions_of(peer.connection.broker, tmp_path) as behind:
        txn_id = await begun(peer)
        added = await asked(peer, "ADD_PARTITION_TO_TXN", "addPartitionToTxn", **of(txn_id, partitions=[TOPIC]))
        subscriptions = [pb.Subscription(topic=TOPIC, subscription="s")]
        acked = await asked(
            peer, "ADD_SUBSCRIPTION_TO_TXN", "addSubscriptionToTxn", **of(txn_id, subscription=subscriptions)
        )
        ended = await asked(peer, "END_TXN", "endTxn", **of(txn_id, txn_action=pb.COMMIT))
        for answer in (added, acked, ended):
            assert (answer.request_id, answer.txnid_most_bits, answer.txnid_least_bits) == (2, *txn_id)
            assert not answer.HasField("error")
        assert sorted(behind.participants.ended) == [(TOPIC, txn_id, True, -1), (f"{TOPIC} s", txn_id, True, -1)]


async def test_each_of_several_commands_that_wait_for_one_end_gets_its_own_answer(tmp_path: Path) -> None:
    peer = await connected()
    async with transactions_of(peer.connection.broker, tmp_path) as behind:
        txn_id, other = await begun(peer), await begun(peer)
        for each in (txn_id, other):
            await asked(peer, "ADD_PARTITION_TO_TXN", "addPartitionToTxn", **of(each, partitions=[TOPIC]))
        ends = [
            command("END_TXN", "endTxn", **of(each, txn_action=action) | {"request_id": request_id})
            for request_id, (each, action) in enumerate(
                [(txn_id, pb.COMMIT), (txn_id, pb.COMMIT), (other, pb.ABORT), (txn_id, pb.ABORT), (txn_id, pb.COMMIT)]
            )
        ]
        peer.say(*ends)
        answers: list[pb.BaseCommand] = []
        while len(answers) < len(ends):
            answers += await peer.answers()
        by_request = {each.endTxnResponse.request_id: each.endTxnResponse for each in answers}
        assert [by_request[number].HasField("error") for number in range(5)] == [False, False, False, True, False]
        assert by_request[3].error == pb.InvalidTxnStatus
        assert [by_request[number].txnid_least_bits for number in range(5)] == [0, 0, 1, 0, 0]
        assert {each[1:3] for each in behind.participants.ended} == {(txn_id, True), (other, False)}


async def test_a_coordinator_that_the_cluster_does_not_have_cannot_be_connected_to(tmp_path: Path) -> None:
    peer = await connected()
    async with transactions_of(peer.connection.broker, tmp_path):
        answer = await asked(peer, "TC_CLIENT_CONNECT_REQUEST", "tcClientConnectRequest", request_id=4, tc_id=7)
        assert (answer.error, answer.message) == (
            pb.TransactionCoordinatorNotFound,
            "Transaction coordinator with id 7 not found!",
        )


@pytest.mark.parametrize(
    ("kind", "field"),
    [("END_TXN_ON_PARTITION", "endTxnOnPartition"), ("END_TXN_ON_SUBSCRIPTION", "endTxnOnSubscription")],
)
async def test_the_end_on_a_topic_that_does_not_exist_is_a_success(kind: str, field: str, tmp_path: Path) -> None:
    peer = await connected()
    async with transactions_of(peer.connection.broker, tmp_path):
        where: dict[str, Any] = {"topic": TOPIC}
        if kind == "END_TXN_ON_SUBSCRIPTION":
            where = {"subscription": pb.Subscription(topic=TOPIC, subscription="s")}
        answer = await asked(peer, kind, field, **of(TxnId(0, 5), **where))
        assert (answer.HasField("error"), answer.txnid_least_bits) == (False, 5)


async def test_only_its_owner_and_superusers_touch_a_transaction(tmp_path: Path) -> None:
    secure = security_scene.Scene()
    alice, bob, root = [await secure.connected(role) for role in ("alice", "bob", "root")]
    async with transactions_of(alice.connection.broker, tmp_path):
        first, second = await begun(alice), await begun(alice)
        for kind, field in (
            ("ADD_PARTITION_TO_TXN", "addPartitionToTxn"),
            ("ADD_SUBSCRIPTION_TO_TXN", "addSubscriptionToTxn"),
            ("END_TXN", "endTxn"),
        ):
            refused = await asked(bob, kind, field, **of(first))
            assert (refused.error, refused.message) == (
                pb.TransactionNotFound,
                "Client (bob) is neither the owner of the transaction (0,0) nor a super user",
            )
        assert not (await asked(alice, "END_TXN", "endTxn", **of(first))).HasField("error")
        assert not (await asked(root, "END_TXN", "endTxn", **of(second))).HasField("error")


async def test_only_superusers_end_a_transaction_on_a_topic(tmp_path: Path) -> None:
    secure = security_scene.Scene()
    alice, root = [await secure.connected(role) for role in ("alice", "root")]
    async with transactions_of(alice.connection.broker, tmp_path):
        end = ("END_TXN_ON_PARTITION", "endTxnOnPartition")
        assert (await asked(alice, *end, **of(TxnId(0, 0), topic=TOPIC))).error == pb.TransactionNotFound
        assert not (await asked(root, *end, **of(TxnId(0, 0), topic=TOPIC))).HasField("error")
