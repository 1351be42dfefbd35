"""What every metadata store does with records. A subclass named `Test…` says how its store is opened.

Tests call `await self.settle(store)` between writing and checking. For most stores it returns the store itself; for
the "reopened" ones it closes the store and opens it again, so that the checks read what is on disk.
"""

import asyncio
from collections.abc import Awaitable

import pytest

from magnetar.metadata.errors import BadVersionError, EphemeralParentError, NodeExistsError, NoNodeError, NotEmptyError
from magnetar.metadata.store import CheckOp, CreateOp, DeleteOp, MetadataStore, Op, PutOp, SessionEvent
from tests.metadata.recorder import Recorder


class RecordContract:
    """Subclasses provide the fixture `store` and, where reopening is checked, `settle`."""

    async def settle(self, store: MetadataStore) -> MetadataStore:
        return store

    async def test_a_missing_record_is_none(self, store: MetadataStore) -> None:
        assert await store.get("/a") is None
        assert await store.exists("/a/b") is None

    async def test_a_created_record_is_read_back(self, store: MetadataStore) -> None:
        created = await store.create("/a", b"one")
        store = await self.settle(store)
        record = await store.get("/a")
        assert record is not None
        assert created.path == "/a"
        assert (record.value, record.stat) == (b"one", created.stat)
        assert created.stat.version == 0
        assert not created.stat.ephemeral
        assert created.stat.created_ms == created.stat.modified_ms > 0
        assert await store.exists("/a") == record.stat

    async def test_any_bytes_are_kept(self, store: MetadataStore) -> None:
        values = {"empty": b"", "zero": b"\0", "all": bytes(range(256)), "large": b"\xff\x00" * 100_000}
        for name, value in values.items():
            await store.create(f"/{name}", value)
        store = await self.settle(store)
        for name, value in values.items():
            record = await store.get(f"/{name}")
            assert record is not None
            assert record.value == value

    async def test_names_may_hold_any_characters_but_slash_and_zero(self, store: MetadataStore) -> None:
        names = sorted(["a%2Fb", "ü", "x y", "-", "a.b", "…", "%", "a'b"])
        for name in names:
            await store.create(f"/{name}/child", name.encode(), make_parents=True)
        store = await self.settle(store)
        assert await store.children("/") == names
        for name in names:
            record = await store.get(f"/{name}/child")
            assert record is not None
            assert record.value == name.encode()

    @pytest.mark.parametrize("path", ["", "a", "a/b", "/a/", "//", "/a//b", "/.", "/a/../b", "/a\0b", "/\ud800"])
    async def test_an_impossible_path_is_refused(self, store: MetadataStore, path: str) -> None:
        for call in (store.get(path), store.exists(path), store.put(path, b""), store.create(path), store.delete(path)):
            with pytest.raises(ValueError, match="metadata path"):
                await call

    async def test_versions_grow_by_one_with_every_put(self, store: MetadataStore) -> None:
        created = (await store.create("/a", b"0")).stat
        for number in range(1, 4):
            stat = await store.put("/a", str(number).encode())
            assert stat.version == number
        store = await self.settle(store)
        record = await store.get("/a")
        assert record is not None
        assert record.value == b"3"
        assert record.stat.version == 3
        assert record.stat.created_ms == created.created_ms
        assert record.stat.modified_ms >= created.modified_ms

    async def test_put_with_the_right_version_writes(self, store: MetadataStore) -> None:
        await store.create("/a")
        await store.put("/a", b"1", 0)
        store = await self.settle(store)
        assert (await store.put("/a", b"2", 1)).version == 2

    async def test_put_with_another_version_is_refused_and_changes_nothing(self, store: MetadataStore) -> None:
        await store.create("/a", b"kept")
        await store.put("/a", b"kept")
        for wrong in (0, 2, -1):
            with pytest.raises(BadVersionError) as caught:
                await store.put("/a", b"lost", wrong)
            assert (caught.value.path, caught.value.expected, caught.value.actual) == ("/a", wrong, 1)
        store = await self.settle(store)
        record = await store.get("/a")
        assert record is not None
        assert (record.value, record.stat.version) == (b"kept", 1)

    async def test_only_one_of_two_writers_with_the_same_version_wins(self, store: MetadataStore) -> None:
        await store.create("/a")
        results = await asyncio.gather(
            store.put("/a", b"x", 0), store.put("/a", b"y", 0), store.put("/a", b"z", 0), return_exceptions=True
        )
        assert sum(isinstance(result, BadVersionError) for result in results) == 2

    async def test_put_of_a_missing_record_is_refused(self, store: MetadataStore) -> None:
        with pytest.raises(NoNodeError) as caught:
            await store.put("/a", b"")
        assert caught.value.path == "/a"

    async def test_create_of_an_existing_record_is_refused(self, store: MetadataStore) -> None:
        await store.create("/a", b"kept")
        with pytest.raises(NodeExistsError):
            await store.create("/a", b"lost")
        with pytest.raises(NodeExistsError):
            await store.create("/")
        record = await store.get("/a")
        assert record is not None
        assert record.value == b"kept"

    async def test_create_below_a_missing_parent_is_refused(self, store: MetadataStore) -> None:
        with pytest.raises(NoNodeError) as caught:
            await store.create("/a/b")
        assert caught.value.path == "/a"
        assert await store.children("/") == []

    async def test_make_parents_makes_empty_ones_and_keeps_others(self, store: MetadataStore) -> None:
        await store.create("/a", b"kept")
        await store.create("/a/b/c/d", b"leaf", make_parents=True)
        store = await self.settle(store)
        values = [record.value for path in ("/a", "/a/b", "/a/b/c", "/a/b/c/d") if (record := await store.get(path))]
        assert values == [b"kept", b"", b"", b"leaf"]

    async def test_make_parents_makes_none_when_the_record_cannot_be_made(self, store: MetadataStore) -> None:
        await store.create("/e", ephemeral=True)
        with pytest.raises(EphemeralParentError):
            await store.create("/e/x/y", make_parents=True)
        assert await store.exists("/e/x") is None

    async def test_children_are_names_in_order(self, store: MetadataStore) -> None:
        for name in ("b", "a-x", "a", "c"):
            await store.create(f"/p/{name}", make_parents=True)
        await store.create("/p/a/deeper")
        await store.delete("/p/b")
        store = await self.settle(store)
        assert await store.children("/p") == ["a", "a-x", "c"]
        assert await store.children("/p/c") == []
        with pytest.raises(NoNodeError):
            await store.children("/missing")

    async def test_the_stat_counts_children(self, store: MetadataStore) -> None:
        await store.create("/p")
        for name in "abc":
            await store.create(f"/p/{name}")
        await store.delete("/p/a")
        store = await self.settle(store)
        stat = await store.exists("/p")
        assert stat is not None
        assert (stat.child_count, stat.version) == (2, 0)

    async def test_a_deleted_record_is_gone_and_can_be_made_anew(self, store: MetadataStore) -> None:
        await store.create("/a", b"old")
        await store.put("/a", b"old")
        await store.delete("/a")
        store = await self.settle(store)
        assert await store.get("/a") is None
        with pytest.raises(NoNodeError):
            await store.delete("/a")
        assert (await store.create("/a", b"new")).stat.version == 0

    async def test_delete_checks_the_version(self, store: MetadataStore) -> None:
        await store.create("/a")
        await store.put("/a", b"")
        with pytest.raises(BadVersionError):
            await store.delete("/a", 0)
        store = await self.settle(store)
        await store.delete("/a", 1)
        assert await store.exists("/a") is None

    async def test_a_record_with_children_cannot_be_deleted(self, store: MetadataStore) -> None:
        await store.create("/a/b", make_parents=True)
        with pytest.raises(NotEmptyError):
            await store.delete("/a")
        with pytest.raises(NotEmptyError):
            await store.delete("/")
        await store.delete("/a/b")
        await store.delete("/a")

    async def test_the_root_has_a_value(self, store: MetadataStore) -> None:
        await store.put("/", b"root")
        store = await self.settle(store)
        record = await store.get("/")
        assert record is not None
        assert (record.value, record.stat.version) == (b"root", 1)

    async def test_sequential_numbers_count_the_children_ever_created(self, store: MetadataStore) -> None:
        await store.create("/p")
        assert (await store.create("/p/n-", sequential=True)).path == "/p/n-0000000000"
        await store.create("/p/other")
        assert (await store.create("/p/m-", sequential=True)).path == "/p/m-0000000002"
        await store.delete("/p/m-0000000002")
        store = await self.settle(store)
        assert (await store.create("/p/n-", b"v", sequential=True)).path == "/p/n-0000000003"
        assert (await store.create("/p/", sequential=True)).path == "/p/0000000004"
        assert await store.children("/p") == ["0000000004", "n-0000000000", "n-0000000003", "other"]

    async def test_sequential_numbers_are_not_used_twice_after_their_records_went(self, store: MetadataStore) -> None:
        path = (await store.create("/p/n-", sequential=True, make_parents=True)).path
        await store.delete(path)
        path = (await store.create("/p/n-", sequential=True, ephemeral=True)).path
        await store.delete(path)
        store = await self.settle(store)
        assert (await store.create("/p/n-", sequential=True)).path == "/p/n-0000000002"

    async def test_concurrent_sequential_creates_differ(self, store: MetadataStore) -> None:
        await store.create("/p")
        created = await asyncio.gather(*(store.create("/p/n-", sequential=True) for _ in range(50)))
        assert sorted(one.path for one in created) == [f"/p/n-{number:010d}" for number in range(50)]

    async def test_an_ephemeral_record_says_so_and_has_no_children(self, store: MetadataStore) -> None:
        created = await store.create("/e", b"v", ephemeral=True)
        assert created.stat.ephemeral
        assert (await store.put("/e", b"w")).ephemeral
        with pytest.raises(EphemeralParentError):
            await store.create("/e/child")

    async def test_an_ephemeral_record_belongs_to_the_session(self, store: MetadataStore) -> None:
        assert store.is_connected
        assert store.session_id != 0
        created = await store.create("/p/e", ephemeral=True, make_parents=True)
        numbered = await store.create("/q/n-", ephemeral=True, sequential=True, make_parents=True)
        made = await store.multi([CreateOp("/m", ephemeral=True)])
        await store.create("/kept")
        assert made[0] is not None
        assert {created.stat.owner, numbered.stat.owner, made[0].owner} == {store.session_id}
        for path in (created.path, numbered.path, "/m"):
            stat = await store.exists(path)
            assert stat is not None
            assert stat.owner == store.session_id
            assert await store.owns(path)
        for path in ("/p", "/kept", "/missing"):
            assert not await store.owns(path)
        kept = await store.exists("/kept")
        assert kept is not None
        assert kept.owner == 0

    async def test_a_session_that_does_not_change_reports_nothing(self, store: MetadataStore) -> None:
        events: list[SessionEvent] = []
        cancel = store.on_session(events.append)
        await store.create("/a")
        cancel()
        cancel()
        assert events == []

    async def test_multi_makes_all_changes(self, store: MetadataStore) -> None:
        await store.create("/a")
        await store.create("/gone")
        stats = await store.multi(
            [
                CheckOp("/a", 0),
                CreateOp("/b", b"b"),
                CreateOp("/b/c", b"c"),
                PutOp("/b", b"b2", 0),
                PutOp("/a", b"a", 0),
                DeleteOp("/gone", 0),
            ]
        )
        assert [None if stat is None else stat.version for stat in stats] == [None, 0, 0, 1, 1, None]
        store = await self.settle(store)
        assert await store.children("/") == ["a", "b"]
        record = await store.get("/b")
        assert record is not None
        assert (record.value, record.stat.version, record.stat.child_count) == (b"b2", 1, 1)

    @pytest.mark.parametrize(
        ("last", "error"),
        [
            (CheckOp("/a", 7), BadVersionError),
            (CheckOp("/missing", 0), NoNodeError),
            (CreateOp("/a"), NodeExistsError),
            (CreateOp("/missing/x"), NoNodeError),
            (PutOp("/a", b"", 0), BadVersionError),
            (PutOp("/missing", b""), NoNodeError),
            (DeleteOp("/p"), NotEmptyError),
            (DeleteOp("/missing"), NoNodeError),
        ],
    )
    async def test_multi_makes_none_when_one_fails(
        self, store: MetadataStore, last: Op, error: type[Exception]
    ) -> None:
        await store.create("/a", b"kept")
        await store.create("/p/child", make_parents=True)
        recorder = Recorder()
        store.watch("/", recorder, recursive=True)
        with pytest.raises(error):
            await store.multi([CreateOp("/new"), CreateOp("/new/x"), PutOp("/a", b"lost"), CreateOp("/p/second"), last])
        store = await self.settle(store)
        assert await store.children("/") == ["a", "p"]
        assert await store.children("/p") == ["child"]
        record = await store.get("/a")
        assert record is not None
        assert (record.value, record.stat.version) == (b"kept", 0)
        assert recorder.events == []
        assert (await store.create("/p/n", sequential=True)).path == "/p/n0000000001"

    async def test_multi_may_replace_a_record(self, store: MetadataStore) -> None:
        await store.create("/a/old", b"x", make_parents=True)
        await store.put("/a", b"v")
        await store.multi([DeleteOp("/a/old"), DeleteOp("/a"), CreateOp("/a", b"new"), CreateOp("/a/young")])
        store = await self.settle(store)
        record = await store.get("/a")
        assert record is not None
        assert (record.value, record.stat.version, record.stat.child_count) == (b"new", 0, 1)
        assert await store.children("/a") == ["young"]

    async def test_an_empty_multi_does_nothing(self, store: MetadataStore) -> None:
        assert await store.multi([]) == []

    async def test_changes_of_one_turn_happen_in_order(self, store: MetadataStore) -> None:
        calls: list[Awaitable[object]] = [
            store.create("/a", b"0"),
            *(store.put("/a", str(number).encode(), number - 1) for number in range(1, 20)),
            store.create("/a/child"),
            store.delete("/a/child"),
        ]
        await asyncio.gather(*calls)
        store = await self.settle(store)
        record = await store.get("/a")
        assert record is not None
        assert (record.value, record.stat.version, record.stat.child_count) == (b"19", 19, 0)
