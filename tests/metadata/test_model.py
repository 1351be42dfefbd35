"""Compares each store, under random changes, with a deliberately dumb twin: a dictionary of records by path."""

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import CheckOp, Created, CreateOp, DeleteOp, MetadataStore, Op, PutOp
from tests.rounds import rounds


@dataclass
class Twin:
    """Holds, by path, value, version, whether ephemeral, and how many children were ever created. Each change works on
    a copy of the whole, so that it happens wholly or not."""

    records: dict[str, tuple[bytes, int, bool, int]] = field(default_factory=lambda: {"/": (b"", 0, False, 0)})

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return sorted(
            p[len(prefix) :] for p in self.records if p.startswith(prefix) and "/" not in p[len(prefix) :] and p != "/"
        )

    def create(
        self, path: str, value: bytes, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str | None:
        before = dict(self.records)
        parent = path[: path.rindex("/")] or "/"
        if parent not in self.records and not (parents and self.create(parent, b"", parents=True)):
            return None
        parent_value, version, parent_ephemeral, created = self.records[parent]
        path = f"{path}{created:010d}" if sequential else path
        if parent_ephemeral or path in self.records:
            self.records = before
            return None
        self.records[parent] = (parent_value, version, False, created + 1)
        self.records[path] = (value, 0, ephemeral, 0)
        return path

    def put(self, path: str, value: bytes, expected: int | None) -> bool:
        if not self.check(path, expected):
            return False
        _, version, ephemeral, created = self.records[path]
        self.records[path] = (value, version + 1, ephemeral, created)
        return True

    def delete(self, path: str, expected: int | None) -> bool:
        if not self.check(path, expected) or self.children(path) or path == "/":
            return False
        del self.records[path]
        return True

    def check(self, path: str, expected: int | None) -> bool:
        return path in self.records and expected in (None, self.records[path][1])

    def multi(self, ops: list[Op]) -> bool:
        before = dict(self.records)
        for op in ops:
            match op:
                case CreateOp():
                    done = self.create(op.path, op.value, op.ephemeral) is not None
                case PutOp():
                    done = self.put(op.path, op.value, op.expected_version)
                case DeleteOp():
                    done = self.delete(op.path, op.expected_version)
                case CheckOp():
                    done = self.check(op.path, op.expected_version)
            if not done:
                self.records = before
                return False
        return True

    def end_session(self) -> None:
        self.records = {path: record for path, record in self.records.items() if not record[2]}


paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
values = st.binary(max_size=8)
versions = st.none() | st.integers(0, 2)
ops = st.one_of(
    st.builds(CreateOp, paths, values, st.booleans()),
    st.builds(PutOp, paths, values, versions),
    st.builds(DeleteOp, paths, versions),
    st.builds(CheckOp, paths, st.integers(0, 2)),
)
steps = st.one_of(
    st.tuples(st.just("create"), paths, values, st.booleans(), st.booleans(), st.booleans()),
    st.tuples(st.just("multi"), st.lists(ops, min_size=1, max_size=4)),
    st.tuples(st.just("reopen")),
)
# A turn is a list of steps whose writes are started together, so that they meet in one batch.
turns = st.lists(st.lists(steps, min_size=1, max_size=4), max_size=12)


async def attempt(store: MetadataStore, step: tuple[Any, ...]) -> Created | bool | None:
    try:
        if step[0] == "create":
            _, path, value, ephemeral, sequential, make_parents = step
            return await store.create(
                path, value, ephemeral=ephemeral, sequential=sequential, make_parents=make_parents
            )
        await store.multi(step[1])
        return True
    except MetadataError:
        return None


def expected(twin: Twin, step: tuple[Any, ...]) -> str | bool | None:
    return twin.create(*step[1:]) if step[0] == "create" else (twin.multi(step[1]) or None)


async def compare(store: MetadataStore, twin: Twin) -> None:
    for path, (value, version, ephemeral, _) in twin.records.items():
        record = await store.get(path)
        assert record is not None, path
        assert (record.value, record.stat.version, record.stat.ephemeral) == (value, version, ephemeral), path
        assert await store.children(path) == twin.children(path)
        assert record.stat.child_count == len(twin.children(path))


async def run(store: MetadataStore, reopen: Any, script: list[list[tuple[Any, ...]]]) -> None:
    twin = Twin()
    for turn in script:
        writes = [step for step in turn if step[0] != "reopen"]
        results = await asyncio.gather(*(attempt(store, step) for step in writes))
        for step, result in zip(writes, results, strict=True):
            assert (result.path if isinstance(result, Created) else result) == expected(twin, step), step
        if len(writes) < len(turn):
            store = await reopen(store)
            twin.end_session()
        await compare(store, twin)
    await store.close()


@settings(max_examples=rounds(50), deadline=None)
@given(turns)
def test_the_memory_store_agrees_with_the_twin(script: list[list[tuple[Any, ...]]]) -> None:
    async def reopen(store: MemoryStore) -> MemoryStore:
        await store.close()
        return store.session()

    async def main() -> None:
        await run(MemoryStore(), reopen, script)

    asyncio.run(main())


@settings(max_examples=rounds(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns)
def test_the_embedded_store_agrees_with_the_twin(script: list[list[tuple[Any, ...]]]) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "metadata.sqlite"

            async def reopen(store: EmbeddedStore) -> EmbeddedStore:
                await store.close()
                return await EmbeddedStore.open(path)

            await run(await EmbeddedStore.open(path), reopen, script)

    asyncio.run(main())
