"""The REST calls about coordinators and transactions, on a running server."""

import json
from pathlib import Path

import pytest

from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.admin.transaction_scene import BASE, MINUTE_MS, asked, begun, connected, enabled
from tests.server.web.web_scene import TOPIC, Web, running


async def test_the_coordinators_and_their_state(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        assert await web.json(f"{BASE}/coordinators") == [{"id": 0, "brokerServiceUrl": web.server.broker_url}]
        client = await connected(web)
        await begun(client)
        every = await web.json(f"{BASE}/coordinatorStats")
        one = await web.json(f"{BASE}/coordinatorStats?coordinatorId=0")
        assert every == {"0": one}
        times = (one.pop("recoverStartTime"), one.pop("recoverEndTime"))
        assert 0 < times[0] <= times[1]
        assert one == {"state": "Ready", "leastSigBits": 0, "lowWaterMark": -1, "ongoingTxnSize": 1}
        internal = await web.json(f"{BASE}/coordinatorInternalStats/0")
        log = internal["transactionLogStats"]
        assert log["managedLedgerName"] == "pulsar/system/persistent/__transaction_log_0"
        assert log["managedLedgerInternalStats"]["numberOfEntries"] == 1
        assert list(log["managedLedgerInternalStats"]["cursors"]) == ["transaction.subscription"]
        client.writer.close()


async def test_a_transaction_is_shown_with_what_its_topics_know(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        client = await connected(web)
        txn_id = await begun(client)
        ids = {"txnid_most_bits": txn_id.most, "txnid_least_bits": txn_id.least}
        nowhere = [TOPIC, "rubbish://", "persistent://no/where/t"]
        await asked(client, "ADD_PARTITION_TO_TXN", "addPartitionToTxn", request_id=2, partitions=nowhere, **ids)
        acked = [pb.Subscription(topic=TOPIC, subscription="s")]
        await asked(client, "ADD_SUBSCRIPTION_TO_TXN", "addSubscriptionToTxn", request_id=3, subscription=acked, **ids)
        shown = await web.json(f"{BASE}/transactionMetadata/0/0")
        began_ms = shown.pop("openTimestamp")
        assert shown == {
            "txnId": "(0,0)",
            "status": "OPEN",
            "timeoutAt": MINUTE_MS,
            "producedPartitions": {name: {} for name in nowhere},
            "ackedPartitions": {TOPIC: {"s": {}}},
        }
        assert await web.json(f"{BASE}/slowTransactions/{began_ms}") == {}
        slow = {"(0,0)": {**shown, "openTimestamp": began_ms}}
        web.server.service.managed_ledgers.clock_ms = lambda: began_ms + 11
        assert await web.json(f"{BASE}/slowTransactions/10") == slow
        assert await web.json(f"{BASE}/slowTransactions/10?coordinatorId=0") == slow
        assert await web.json(f"{BASE}/slowTransactions/11") == {}
        client.writer.close()


async def test_an_administrator_aborts_a_transaction(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        client = await connected(web)
        await begun(client)
        assert await web.call("POST", f"{BASE}/abortTransaction/0/0") == (204, "")
        gone = (404, {"reason": "The transaction with this txdID `(0,0)`not found "})
        status, body = await web.call("POST", f"{BASE}/abortTransaction/0/0")
        assert (status, json.loads(body)) == gone
        status, _, body = await web.get(f"{BASE}/transactionMetadata/0/0")
        assert (status, json.loads(body)) == gone
        client.writer.close()


async def test_the_number_of_coordinators_grows_and_the_new_ones_run(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        replicas = f"{BASE}/transactionCoordinator/replicas"
        assert await web.call("POST", replicas, "3") == (204, "")
        assert [each["id"] for each in await web.json(f"{BASE}/coordinators")] == [0, 1, 2]
        client = await connected(web)
        connect = ("TC_CLIENT_CONNECT_REQUEST", "tcClientConnectRequest")
        assert not (await asked(client, *connect, request_id=1, tc_id=2)).HasField("error")
        answer = await asked(client, "NEW_TXN", "newTxn", request_id=1, txn_ttl_millis=MINUTE_MS, tc_id=2)
        assert (answer.txnid_most_bits, answer.txnid_least_bits) == (2, 0)
        client.writer.close()
        status, body = await web.call("POST", replicas, "3")
        assert status == 406
        assert json.loads(body)["reason"].startswith("Number of transaction coordinators should be more than")
        assert (await web.call("POST", replicas, '"many"'))[0] == 400
        status, body = await web.call("POST", replicas, "1001")
        assert (status, json.loads(body)["reason"]) == (405, "A cluster has 1000 transaction coordinators at most")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("coordinatorStats?coordinatorId=7", "Transaction coordinator not found! coordinator id : 7"),
        ("coordinatorInternalStats/7", "Transaction coordinator not found! coordinator id : 7"),
        ("transactionMetadata/7/0", "Transaction coordinator not found! coordinator id : 7"),
        ("slowTransactions/1?coordinatorId=7", "Transaction coordinator not found! coordinator id : 7"),
        ("transactionMetadata/0/99999", "The transaction with this txdID `(0,99999)`not found "),
        ("transactionMetadata/0/x", "least is not a number: x"),
        ("coordinatorStats?coordinatorId=x", "coordinatorId is not a number: x"),
    ],
)
async def test_what_does_not_exist_is_named(path: str, reason: str, tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        status, _, body = await web.get(f"{BASE}/{path}")
        assert (status, json.loads(body)) == (404, {"reason": reason})


async def test_before_the_first_transaction_there_are_zero_of_them_and_no_log(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        none = {"state": "None", "leastSigBits": -1, "lowWaterMark": 0, "ongoingTxnSize": 0}
        shown = {**none, "recoverStartTime": 0, "recoverEndTime": 0}
        assert await web.json(f"{BASE}/coordinators") == [{"id": 0, "brokerServiceUrl": web.server.broker_url}]
        assert await web.json(f"{BASE}/coordinatorStats") == {"0": shown}
        assert await web.json(f"{BASE}/coordinatorStats?coordinatorId=0") == shown
        assert await web.json(f"{BASE}/slowTransactions/0") == {}
        for path in ("coordinatorStats?", "slowTransactions/0?"):
            assert (await web.get(f"{BASE}/{path}coordinatorId=1"))[0] == 404
        _, _, metrics = await web.get("/metrics/")
        assert 'pulsar_txn_active_count{cluster="standalone",coordinator_id="0"} 0' in metrics
        status, _, body = await web.get(f"{BASE}/transactionMetadata/0/0")
        assert (status, json.loads(body)) == (404, {"reason": "Transaction coordinator not found! coordinator id : 0"})
        assert not await web.server.service.managed_ledgers.exists("pulsar/system/persistent/__transaction_log_0")


async def test_without_transactions_every_call_says_so(tmp_path: Path) -> None:
    reason = {"reason": "This Broker is not configured with transactionCoordinatorEnabled=true."}
    async with running(tmp_path, transactionCoordinatorEnabled="false") as web:
        for path in ("coordinators", "coordinatorStats", "transactionMetadata/0/0", "slowTransactions/1"):
            status, _, body = await web.get(f"{BASE}/{path}")
            assert (status, json.loads(body)) == (503, reason)
        for path in ("abortTransaction/0/0", "transactionCoordinator/replicas"):
            status, body = await web.call("POST", f"{BASE}/{path}", "5")
            assert (status, json.loads(body)) == (503, reason)


async def test_unloading_the_topic_of_a_coordinator_loads_the_coordinator_again(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        client = await connected(web)
        await begun(client)
        before = await web.json(f"{BASE}/coordinatorStats?coordinatorId=0")
        path = "/admin/v2/persistent/pulsar/system/transaction_coordinator_assign-partition-0/unload"
        assert await web.call("PUT", path) == (204, "")
        connect = ("TC_CLIENT_CONNECT_REQUEST", "tcClientConnectRequest")
        assert not (await asked(client, *connect, request_id=1, tc_id=0)).HasField("error")
        after = await web.json(f"{BASE}/coordinatorStats?coordinatorId=0")
        assert after["recoverStartTime"] >= before["recoverEndTime"]
        assert (after["leastSigBits"], after["ongoingTxnSize"]) == (0, 1)
        client.writer.close()


async def test_the_metrics_count_transactions(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        client = await connected(web)
        for commit in (True, False):
            txn_id = await begun(client)
            ids = {"txnid_most_bits": txn_id.most, "txnid_least_bits": txn_id.least}
            await asked(client, "ADD_PARTITION_TO_TXN", "addPartitionToTxn", request_id=2, partitions=[TOPIC], **ids)
            action = pb.COMMIT if commit else pb.ABORT
            await asked(client, "END_TXN", "endTxn", request_id=3, txn_action=action, **ids)
        await begun(client)
        page = (await web.get("/metrics/"))[2]
        samples = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("pulsar_txn_"))
        labels = '{cluster="standalone",coordinator_id="0"}'
        totals = {"active_count": 1, "created_total": 3, "committed_total": 1, "aborted_total": 1, "timeout_total": 0}
        totals["append_log_total"] = 3 + 2 + 4
        for name, value in totals.items():
            assert float(samples[f"pulsar_txn_{name}{labels}"]) == value, name
        lifetimes = [value for name, value in samples.items() if name.startswith("pulsar_txn_execution_latency_le_")]
        assert sum(map(float, lifetimes)) == 2
        for end in ("commit", "abort"):
            assert float(samples[f'pulsar_txn_tb_client_{end}_latency_count{{cluster="standalone"}}']) == 1
            assert float(samples[f'pulsar_txn_tb_client_{end}_failed_total{{cluster="standalone"}}']) == 0
        client.writer.close()


async def test_batching_switched_on_while_the_server_runs_holds_for_logs_that_are_opened_later(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        client = await connected(web)
        await begun(client)
        path = "/admin/v2/brokers/configuration/transactionLogBatchedWriteEnabled/true"
        assert await web.call("POST", path) == (200, "")
        await begun(client)
        assert await _records_in_batches(web) == 0
        path = "/admin/v2/persistent/pulsar/system/transaction_coordinator_assign-partition-0/unload"
        assert await web.call("PUT", path) == (204, "")
        await asked(client, "TC_CLIENT_CONNECT_REQUEST", "tcClientConnectRequest", request_id=1, tc_id=0)
        assert (await begun(client)).least == 2
        assert await _records_in_batches(web) == 1
        assert (await web.json(f"{BASE}/coordinatorStats?coordinatorId=0"))["ongoingTxnSize"] == 3
        client.writer.close()


async def _records_in_batches(web: Web) -> float:
    name = 'pulsar_txn_tc_bufferedwriter_batch_records_sum{cluster="standalone",broker="127.0.0.1"} '
    (value,) = (line.removeprefix(name) for line in (await web.get("/metrics/"))[2].splitlines() if name in line)
    return float(value)
