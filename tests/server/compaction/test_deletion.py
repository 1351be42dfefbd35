"""What compaction stored is deleted with what it belongs to, the topic or compaction's cursor, whenever that is
deleted."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from multidict import MultiDict

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.admin.routes import ROUTES
from magnetar.server.compaction.topic_compaction import COMPACTION_CURSOR, TopicCompaction
from magnetar.server.web import needs
from magnetar.server.web.calls import NO_CONTENT, Call, Refusal
from magnetar.server.web.router import Router
from magnetar.storage.ledger.ledger_listing import list_ledgers
from magnetar.storage.managed.cursor import Cursor
from tests.server.compaction.messages import Sent, single
from tests.server.topics.storage_scene import NAME, Process, process
from tests.storage.managed.support import append

CURSOR_PATH = f"/admin/v2/persistent/{NAME.namespace}/{NAME.local_name}/subscription/{COMPACTION_CURSOR}"


async def sent_on(broker: Process) -> TopicCompaction:
    topic = await broker.topic()
    for number in range(20):
        assert (await append(topic.ledger, single(Sent(f"k{number % 4}", b"%d" % number)))).error is None
    assert topic.compaction is not None
    return topic.compaction


async def compacted_on(broker: Process) -> TopicCompaction:
    compaction = await sent_on(broker)
    compaction.trigger()
    await compaction.idle()
    assert compaction.ledger_id is not None, compaction.status
    return compaction


async def delete_cursor(broker: Process) -> Any:
    found = Router(ROUTES).find(CURSOR_PATH)[0]
    call = Call(
        cast(Any, SimpleNamespace(service=broker.service, ownership=broker.service.ownership)),
        found.parts,
        MultiDict(),
        {},
    )
    return await found.routes["DELETE"].handler(call)


async def test_a_topic_that_is_deleted_while_a_run_swaps_leaves_no_ledger_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    async with process(tmp_path, store) as broker:
        compaction = await compacted_on(broker)
        await sent_on(broker)
        cursor, swapping = compaction.cursor, asyncio.Event()
        assert cursor is not None

        async def never_durable(_: Cursor) -> None:
            swapping.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(Cursor, "persisted", never_durable)
        compaction.trigger()
        await swapping.wait()
        assert len(compaction.ledger_ids) == 2
        await broker.service.delete_topic(NAME)
        await broker.service._factory.reaper.idle()
        assert not set(compaction.ledger_ids) & await list_ledgers(store)


async def test_a_run_that_swaps_while_the_topic_closes_leaves_no_ledger_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    async with process(tmp_path, store) as broker:
        compaction = await sent_on(broker)
        close = TopicCompaction.close

        async def close_late(closing: TopicCompaction) -> None:
            closing.trigger()
            await closing.idle()
            await close(closing)

        monkeypatch.setattr(TopicCompaction, "close", close_late)
        await broker.service.delete_topic(NAME)
        await broker.service._factory.reaper.idle()
        assert compaction.ledger_id is not None
        assert compaction.ledger_id not in await list_ledgers(store)


async def test_the_cursor_of_compaction_is_deleted_as_a_subscription(tmp_path: Path) -> None:
    store = MemoryStore()
    async with process(tmp_path, store) as broker:
        compaction = await compacted_on(broker)
        ledger_id = compaction.ledger_id
        assert await delete_cursor(broker) == NO_CONTENT
        await broker.service._factory.reaper.idle()
        assert compaction.cursor is None
        assert ledger_id not in await list_ledgers(store)
        with pytest.raises(Refusal, match="Subscription __compaction not found for topic") as refused:
            await delete_cursor(broker)
        assert refused.value.status == 404


def test_to_consume_is_not_enough_to_delete_what_is_compacted() -> None:
    found = Router(ROUTES).find(CURSOR_PATH)[0]
    assert found.routes["DELETE"].needs == needs.topic("COMPACT")
