"""The REST calls and metrics about a subscription's acknowledgements in transactions, on a running server."""

import json
from pathlib import Path
from typing import Any

from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import log_name
from pulsar_proto.ids import TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.admin.transaction_scene import BASE, begun, connected, enabled
from tests.server.fakes import command
from tests.server.web.web_scene import TOPIC, Web, running
from tests.server.wire_client import Client, flow, message, send
from tests.waiting import until

SUBSCRIPTION = "public/default/t1/s"


async def consuming(web: Web, sub_type: "pb.CommandSubscribe.SubType.ValueType", messages: int) -> Client:
    """Returns a client that has published messages and got them."""
    client = await connected(web)
    subscribe = {"subscription": "s", "consumer_id": 1, "request_id": 1, "subType": sub_type}
    client.say(command("SUBSCRIBE", "subscribe", topic=TOPIC, **subscribe))
    assert (await client.answer()).type == pb.BaseCommand.SUCCESS
    publisher = await connected(web)
    publisher.say(command("PRODUCER", "producer", topic=TOPIC, producer_id=1, request_id=1))
    assert (await publisher.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS
    for sequence_id in range(messages):
        publisher.writer.write(send(sequence_id))
    client.say(flow(messages))
    for _ in range(messages):
        await message(client)
    publisher.writer.close()
    return client


def ids_of(txn_id: TxnId) -> dict[str, int]:
    return {"txnid_most_bits": txn_id.most, "txnid_least_bits": txn_id.least}


async def acked(
    client: Client, txn_id: TxnId, entry_id: int, ledger_id: int, kind: str = "Individual", **values: Any
) -> pb.CommandAckResponse:
    message_id = pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id, **values)
    ids = {**ids_of(txn_id), "ack_type": pb.CommandAck.AckType.Value(kind)}
    client.say(command("ACK", "ack", consumer_id=1, message_id=[message_id], request_id=9, **ids))
    answer = await client.answer()
    assert answer.type == pb.BaseCommand.ACK_RESPONSE
    return answer.ackResponse


async def ended(web: Web, txn_id: TxnId, action: "pb.TxnAction.ValueType") -> None:
    """Ends a transaction as its coordinator does on another broker."""
    client = await connected(web)
    where = pb.Subscription(topic=TOPIC, subscription="s")
    ids = {**ids_of(txn_id), "txnid_least_bits_of_low_watermark": 2**64 - 1, "request_id": 3}
    client.say(command("END_TXN_ON_SUBSCRIPTION", "endTxnOnSubscription", subscription=where, txn_action=action, **ids))
    answer = (await client.answer()).endTxnOnSubscriptionResponse
    assert not answer.HasField("error")
    assert (answer.txnid_most_bits, answer.txnid_least_bits) == txn_id
    client.writer.close()


async def refused(web: Web, path: str) -> tuple[int, str]:
    status, _, body = await web.get(f"{BASE}/{path}")
    return status, json.loads(body)["reason"]


async def state_of(web: Web, path: str) -> str:
    answer = await web.json(f"{BASE}/positionStatsInPendingAck/{SUBSCRIPTION}/{path}")
    assert list(answer) == ["state"]
    state: str = answer["state"]
    return state


async def test_the_state_of_acknowledgements_and_messages(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        client = await consuming(web, pb.CommandSubscribe.Shared, 3)
        topic = web.server.service.topics[TOPIC]
        ledger_id = topic.ledger.last_confirmed.ledger_id
        none = {"state": "None", "ongoingTxnSize": 0, "recoverStartTime": 0, "recoverEndTime": 0}
        assert await web.json(f"{BASE}/pendingAckStats/{SUBSCRIPTION}") == none
        assert await refused(web, f"pendingAckInternalStats/{SUBSCRIPTION}") == (
            503,
            "Pending ack have not init success!",
        )
        assert await state_of(web, f"{ledger_id}/0") == "PendingAckNotReady"
        first, second = await begun(await connected(web)), await begun(await connected(web))
        assert not (await acked(client, first, 0, ledger_id)).HasField("error")
        assert not (await acked(client, second, 1, ledger_id, ack_set=[0b110], batch_size=3)).HasField("error")
        conflict = await acked(client, second, 0, ledger_id)
        assert conflict.error == pb.TransactionConflict
        assert conflict.message == (
            "org.apache.pulsar.transaction.common.exception.TransactionConflictException: "
            f"[{TOPIC}][s] Transaction:(0,1) try to ack message:{ledger_id}:0 (ackSet is null) in pending ack status."
        )
        stats = await web.json(f"{BASE}/pendingAckStats/{SUBSCRIPTION}?lowWaterMarks=true")
        times = (stats.pop("recoverStartTime"), stats.pop("recoverEndTime"))
        assert 0 < times[0] <= times[1]
        assert stats == {"state": "Ready", "lowWaterMarks": {}, "ongoingTxnSize": 2}
        states = [await state_of(web, f"{ledger_id}/{each}") for each in ("0", "1", "2", "1?batchIndex=0")]
        assert states == ["PendingAck", "PendingAck", "NotInPendingAck", "PendingAck"]
        states = [await state_of(web, f"{ledger_id}/1?batchIndex={each}") for each in (1, 3)]
        assert states == ["NotInPendingAck", "InvalidPosition"]
        await ended(web, first, pb.COMMIT)
        await ended(web, second, pb.ABORT)
        assert await state_of(web, f"{ledger_id}/0") == "MarkDelete"
        log = (await web.json(f"{BASE}/pendingAckInternalStats/{SUBSCRIPTION}"))["pendingAckLogStats"]
        assert log["managedLedgerName"] == log_name(TopicName.parse(TOPIC), "s")
        assert log["managedLedgerInternalStats"]["numberOfEntries"] == 4
        assert list(log["managedLedgerInternalStats"]["cursors"]) == ["__pending_ack_state"]
        stats = await web.json(f"{BASE}/pendingAckStats/{SUBSCRIPTION}?lowWaterMarks=true")
        assert (stats["lowWaterMarks"], stats["ongoingTxnSize"]) == ({"0": -1}, 0)
        await _assert_metrics(web)
        client.writer.close()


async def _assert_metrics(web: Web) -> None:
    _, _, page = await web.get("/metrics/")
    labels = f'cluster="standalone",namespace="public/default",topic="{TOPIC}",subscription="s"'
    lines = page.split("\n")
    for name in ("committed", "aborted"):
        assert f'pulsar_txn_tp_{name}_count_total{{{labels},status="succeed"}} 1' in lines
        assert f'pulsar_txn_tp_{name}_count_total{{{labels},status="failed"}} 0' in lines
    assert f"pulsar_txn_tp_commit_latency_count{{{labels}}} 1" in lines


async def test_a_cumulative_acknowledgement_is_shown_with_its_transaction(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        client = await consuming(web, pb.CommandSubscribe.Exclusive, 3)
        ledger_id = web.server.service.topics[TOPIC].ledger.last_confirmed.ledger_id
        txn_id = await begun(await connected(web))
        shown = f"{BASE}/transactionInPendingAckStats/{SUBSCRIPTION}/{txn_id.most}/{txn_id.least}"
        assert await web.json(shown) == {}
        subscription = web.server.service.topics[TOPIC].subscriptions["s"]
        for ack_set, position in (([0b100], f"{ledger_id}:1:2"), ([], f"{ledger_id}:1")):
            answer = await acked(client, txn_id, 1, ledger_id, "Cumulative", ack_set=ack_set, batch_size=3)
            assert not answer.HasField("error")
            assert await web.json(shown) == {"cumulativeAckPosition": position}
        await ended(web, txn_id, pb.COMMIT)
        await until(lambda: subscription.cursor.mark_delete == (ledger_id, 1))
        assert await web.json(shown) == {}
        client.writer.close()


async def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        client = await consuming(web, pb.CommandSubscribe.Shared, 0)
        for path in ("pendingAckStats/{}", "pendingAckInternalStats/{}", "transactionInPendingAckStats/{}/0/1"):
            gone = await refused(web, path.format("public/default/nothere/s"))
            assert gone == (404, "Topic not found persistent://public/default/nothere")
            gone = await refused(web, path.format("public/default/t1/none"))
            assert gone == (404, f"{TOPIC} not found subscription : none")
        assert (await refused(web, f"positionStatsInPendingAck/{SUBSCRIPTION}/x/1"))[0] == 404
        status, reason = await refused(web, f"positionStatsInPendingAck/{SUBSCRIPTION}/1/1?batchIndex=-1")
        assert (status, reason) == (400, "batchIndex is negative: -1")
        client.writer.close()


async def test_while_transactions_are_off_the_calls_say_so(tmp_path: Path) -> None:
    async with running(tmp_path, transactionCoordinatorEnabled="false") as web:
        status, reason = await refused(web, f"pendingAckStats/{SUBSCRIPTION}")
        assert (status, reason) == (503, "This Broker is not configured with transactionCoordinatorEnabled=true.")
