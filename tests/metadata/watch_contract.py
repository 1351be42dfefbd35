"""What watches of every metadata store hear, and what its end and a cancelled writer leave."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from magnetar.metadata.errors import BadVersionError, StoreClosedError
from magnetar.metadata.store import CreateOp, EventType, MetadataStore, RecordEvent
from tests.metadata.recorder import DEADLINE_SECONDS, Recorder

CREATED, CHANGED, DELETED = EventType.CREATED, EventType.CHANGED, EventType.DELETED
CHILDREN = EventType.CHILDREN_CHANGED


class WatchContract:
    """Subclasses provide the fixture `store`."""

    async def test_a_watch_hears_of_its_record_until_cancelled(self, store: MetadataStore) -> None:
        recorder = Recorder()
        cancel = store.watch("/a", recorder)
        await store.create("/a")
        await store.create("/b")
        await store.put("/a", b"1")
        await store.put("/a", b"2")
        await store.create("/a/c")
        await store.put("/a/c", b"")
        await store.delete("/a/c")
        await store.delete("/a")
        await store.create("/a")
        expected = [(kind, "/a") for kind in (CREATED, CHANGED, CHANGED, CHILDREN, CHILDREN, DELETED, CREATED)]
        await recorder.until(*expected)
        cancel()
        cancel()
        await store.put("/a", b"3")
        await store.put("/a", b"4")
        await recorder.until(*expected)

    async def test_a_recursive_watch_hears_of_everything_below(self, store: MetadataStore) -> None:
        await store.create("/ab")
        recorder, everything = Recorder(), Recorder()
        store.watch("/a", recorder, recursive=True)
        store.watch("/", everything, recursive=True)
        await store.create("/a/b", make_parents=True)
        await store.put("/ab", b"")
        await store.put("/a/b", b"")
        below = [(CREATED, "/a"), (CREATED, "/a/b"), (CHILDREN, "/a"), (CHANGED, "/a/b")]
        await recorder.until(*below)
        await everything.until(
            (CREATED, "/a"),
            (CHILDREN, "/"),
            (CREATED, "/a/b"),
            (CHILDREN, "/a"),
            (CHANGED, "/ab"),
            (CHANGED, "/a/b"),
        )

    async def test_the_change_is_readable_when_its_watch_is_called(self, store: MetadataStore) -> None:
        seen: list[bytes | None] = []
        done = asyncio.Event()
        tasks: list[asyncio.Task[None]] = []

        async def read() -> None:
            record = await store.get("/a")
            seen.append(None if record is None else record.value)
            done.set()

        store.watch("/a", lambda event: tasks.append(asyncio.ensure_future(read())))
        await store.create("/a", b"now")
        async with asyncio.timeout(DEADLINE_SECONDS):
            await done.wait()
        assert seen == [b"now"]

    async def test_a_refused_change_is_not_reported(self, store: MetadataStore) -> None:
        await store.create("/a")
        recorder = Recorder()
        store.watch("/a", recorder)
        with pytest.raises(BadVersionError):
            await store.put("/a", b"", 9)
        await store.put("/a", b"")
        await recorder.until((CHANGED, "/a"))

    async def test_a_watch_that_fails_does_not_harm_others(
        self, store: MetadataStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(event: RecordEvent) -> None:
            raise RuntimeError("broken watch")

        recorder = Recorder()
        store.watch("/a", broken)
        store.watch("/a", recorder)
        await store.create("/a")
        await recorder.until((CREATED, "/a"))
        assert "a watch of /a failed" in caplog.text

    async def test_a_closed_store_refuses_everything(self, store: MetadataStore) -> None:
        await store.create("/a")
        await store.close()
        await store.close()
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.get("/a"),
            lambda: store.exists("/a"),
            lambda: store.children("/"),
            lambda: store.put("/a", b""),
            lambda: store.create("/b"),
            lambda: store.delete("/a"),
            lambda: store.multi([CreateOp("/b")]),
        ]
        for call in calls:
            with pytest.raises(StoreClosedError):
                await call()
        with pytest.raises(StoreClosedError):
            store.watch("/a", lambda event: None)

    async def test_close_waits_for_the_writes_that_were_taken(self, store: MetadataStore) -> None:
        writes = [asyncio.ensure_future(store.create(f"/{number}")) for number in range(20)]
        await asyncio.wait([asyncio.ensure_future(store.create("/last"))], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(store.close(), store.close())
        assert all(write.done() and write.exception() is None for write in writes)

    async def test_a_cancelled_writer_leaves_the_store_usable(self, store: MetadataStore) -> None:
        await store.create("/a")
        writes = [asyncio.ensure_future(store.put("/a", b"x")) for _ in range(3)]
        writes[1].cancel()
        await asyncio.wait(writes)
        later = asyncio.ensure_future(store.put("/a", b"y"))
        await store.put("/a", b"z")
        await later
        record = await store.get("/a")
        assert record is not None
        assert record.stat.version in (4, 5)
