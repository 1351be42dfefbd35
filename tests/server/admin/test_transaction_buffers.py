"""The REST calls about the transactions of topics, the headers of single messages, and the counts in stats and metrics,
on a running server."""

from pathlib import Path
from typing import Any

from pulsar_proto.ids import TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame
from tests.server.admin.transaction_scene import BASE, asked, begun, connected, enabled
from tests.server.fakes import command
from tests.server.web.web_scene import TOPIC, Web
from tests.server.wire_client import Client

NAME = TopicName.parse(TOPIC)
AT = f"{NAME.namespace}/{NAME.local_name}"


class Producing:
    """A client with one producer on the topic."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._sequence_id = 0

    @classmethod
    async def begin(cls, web: Web) -> "Producing":
        client = await connected(web)
        client.say(command("PRODUCER", "producer", topic=TOPIC, producer_id=1, request_id=9))
        assert (await client.answer()).HasField("producer_success")
        return cls(client)

    async def send(self, body: bytes, txn_id: TxnId | None = None) -> None:
        ids: dict[str, Any] = {}
        if txn_id is not None:
            ids = {"txnid_most_bits": txn_id.most, "txnid_least_bits": txn_id.least}
        send = pb.CommandSend(producer_id=1, sequence_id=self._sequence_id, **ids)
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=self._sequence_id, publish_time=1, **ids)
        self._sequence_id += 1
        self.client.writer.write(send_frame(send, build_payload(metadata, body)))
        assert (await self.client.answer()).HasField("send_receipt")

    async def end(self, txn_id: TxnId, action: pb.TxnAction.ValueType) -> None:
        ids = {"txnid_most_bits": txn_id.most, "txnid_least_bits": txn_id.least}
        await asked(self.client, "ADD_PARTITION_TO_TXN", "addPartitionToTxn", request_id=7, partitions=[TOPIC], **ids)
        ended = await asked(self.client, "END_TXN", "endTxn", request_id=8, txn_action=action, **ids)
        assert not ended.HasField("error")


async def test_the_state_of_a_topics_transactions_is_shown(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        producing = await Producing.begin(web)
        await producing.send(b"plain")
        before = await web.json(f"{BASE}/transactionBufferStats/{AT}")
        times = [before.pop("recoverStartTime"), before.pop("recoverEndTime")]
        assert 0 < times[0] <= times[1]
        assert (before["state"], before["snapshotType"], before["lastSnapshotTimestamps"]) == (
            "NoSnapshot",
            "Single",
            0,
        )
        assert (await web.get(f"{BASE}/transactionBufferInternalStats/{AT}"))[0] == 404

        opened, aborted = await begun(producing.client), await begun(producing.client)
        await producing.send(b"aborted", aborted)
        await producing.end(aborted, pb.ABORT)
        await producing.send(b"open", opened)
        shown = await web.json(f"{BASE}/transactionBufferStats/{AT}?lowWaterMarks=true&segmentStats=true")
        ledger_id = shown["maxReadPosition"].partition(":")[0]
        assert shown.pop("lastSnapshotTimestamps") > 0
        del shown["recoverStartTime"], shown["recoverEndTime"]
        assert shown == {
            "state": "Ready",
            "maxReadPosition": f"{ledger_id}:2",
            "lowWaterMarks": {"0": opened.least - 1},
            "ongoingTxnSize": 1,
            "totalAbortedTransactions": 1,
            "snapshotType": "Single",
        }
        in_buffer = f"{BASE}/transactionInBufferStats/{AT}"
        assert await web.json(f"{in_buffer}/0/{opened.least}") == {"startPosition": f"{ledger_id}:3", "aborted": False}
        assert await web.json(f"{in_buffer}/0/{aborted.least}") == {"aborted": True}
        internal = await web.json(f"{BASE}/transactionBufferInternalStats/{AT}")
        held = internal["singleSnapshotSystemTopicInternalStats"]
        assert (internal["snapshotType"], held["managedLedgerName"]) == ("Single", "__transaction_buffer_snapshot")
        assert held["managedLedgerInternalStats"]["numberOfEntries"] >= 1
        assert (await web.get(f"{BASE}/transactionBufferStats/public/default/nothere"))[0] == 404
        stats = await web.json(f"/admin/v2/persistent/{AT}/stats")
        assert [stats[f"{each}TxnCount"] for each in ("ongoing", "aborted", "committed")] == [1, 1, 0]
        page = (await web.get("/metrics/"))[2]
        for name, value in (("active", 1), ("aborted", 1), ("committed", 0)):
            lines = [line for line in page.splitlines() if line.startswith(f"pulsar_txn_tb_{name}_total{{")]
            assert [float(line.rpartition(" ")[2]) for line in lines] == [value]
        producing.client.writer.close()


async def test_single_messages_are_shown_with_what_became_of_their_transaction(tmp_path: Path) -> None:
    async with enabled(tmp_path) as web:
        producing = await Producing.begin(web)
        opened, aborted = await begun(producing.client), await begun(producing.client)
        await producing.send(b"plain")
        await producing.send(b"aborted", aborted)
        await producing.end(aborted, pb.ABORT)
        await producing.send(b"open", opened)
        await producing.send(b"behind")
        shown = []
        for number in range(1, 6):
            path = f"/admin/v2/persistent/{AT}/examinemessage?initialPosition=earliest&messagePosition={number}"
            async with web.session.get(web.server.web_url + path) as answer:
                headers = answer.headers
            ids = (headers.get("X-Pulsar-txnid-most-bits"), headers.get("X-Pulsar-txnid-least-bits"))
            shown.append((ids, headers.get("X-Pulsar-txn-aborted"), headers["X-Pulsar-txn-uncommitted"]))
        assert shown == [
            ((None, None), None, "false"),
            (("0", str(aborted.least)), "true", "false"),
            (("0", str(aborted.least)), "true", "false"),
            (("0", str(opened.least)), "false", "true"),
            ((None, None), None, "true"),
        ]
        producing.client.writer.close()
