"""A topic has one name in the log and in refusals, `persistent://tenant/namespace/topic`, so an operator who searches
for it finds all that happened to the topic."""

import asyncio
import logging
from pathlib import Path

import pulsar
import pytest

from pulsar_proto.names import TopicName
from tests.server.web.web_scene import Web, running

NAME = TopicName.parse("persistent://public/default/orders of 2026: é")
SCHEMA_NAME = TopicName.parse("persistent://public/default/typed orders")
MARKS = ("orders of 2026", "orders+of+2026", "typed orders", "typed+orders")
"""Every way to write one of the topics holds one of these texts."""
REST_PATH = f"/admin/v2/{NAME.domain}/{NAME.namespace}/orders%20of%202026%3A%20%C3%A9"

SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": "10",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "managedLedgerCursorMaxEntriesPerLedger": "2",
    "managedLedgerDefaultMarkDeleteRateLimit": "0",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "webServiceRequestLogEnabled": "false",
}


class Order(pulsar.schema.Record):  # type: ignore[misc]
    amount = pulsar.schema.Integer()


def publish_and_consume(service_url: str) -> None:
    """Publishes over many ledgers, and acknowledges every other message, so that cursors need ledgers of their own."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        consumer = client.subscribe(NAME.full, "billing", consumer_type=pulsar.ConsumerType.Shared)
        producer = client.create_producer(NAME.full, batching_enabled=False)
        for number in range(60):
            producer.send(b"%d" % number, partition_key=str(number % 3))
        for number in range(60):
            message = consumer.receive(60_000)
            if number % 2:
                consumer.acknowledge(message)
        client.create_producer(SCHEMA_NAME.full, schema=pulsar.schema.AvroSchema(Order)).send(Order(amount=1))
    finally:
        client.close()


async def use_every_part(web: Web) -> None:
    """Lets topics be loaded, rolled over, trimmed, compacted, unloaded, recovered, terminated and deleted."""

    async def call(method: str, path: str, status: int = 204) -> str:
        told, text = await web.call(method, REST_PATH + path)
        assert told == status, (method, path, told, text)
        return text

    await asyncio.to_thread(publish_and_consume, web.server.broker_url)
    await call("PUT", "/compaction")
    async with asyncio.timeout(60):
        status = ""
        while "SUCCESS" not in status:
            status = await call("GET", "/compaction", 200)
    await call("PUT", "/unload")
    await call("PUT", "/subscription/audit")
    await call("POST", "/subscription/billing/skip_all")
    await call("DELETE", "/truncate")
    await call("DELETE", "/subscription/audit")
    await call("POST", "/terminate", 200)
    with pytest.raises(pulsar.PulsarException):
        await asyncio.to_thread(publish_and_consume, web.server.broker_url)
    await call("DELETE", "?force=true")
    told, text = await web.call("DELETE", f"/admin/v2/persistent/{SCHEMA_NAME.namespace}/typed%20orders?force=true")
    assert told == 204, text


async def test_every_line_about_a_topic_has_its_full_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(tmp_path, **SETTINGS) as web:
        await use_every_part(web)
    records = [record for record in caplog.records if record.name.startswith("magnetar.")]
    lines = [f"{record.name}: {record.getMessage()}" for record in records]
    about = [line for line in lines if any(mark in line for mark in MARKS)]
    assert [line for line in about if NAME.full not in line and SCHEMA_NAME.full not in line] == []
    assert [line for line in about if NAME.managed_ledger_name in line or SCHEMA_NAME.schema_id in line] == []
    for part in (
        "ledger_switch",
        "trimmer",
        "cursor_table",
        "cursor_store",
        "ledger_reaper",
        "factory",
    ):
        assert [line for line in about if line.startswith(f"magnetar.storage.managed.{part}: ")], part
    for part in ("compaction", "topics", "schema", "protocol"):
        assert [line for line in about if line.startswith(f"magnetar.server.{part}.")], part


async def test_no_record_of_a_busy_run_has_a_second_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(tmp_path, **SETTINGS) as web:
        await use_every_part(web)
    calm = [record for record in caplog.records if record.levelno < logging.ERROR]
    assert calm
    assert [record for record in calm if record.exc_info or record.stack_info or "\n" in record.getMessage()] == []
