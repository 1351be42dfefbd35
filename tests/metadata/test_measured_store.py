"""A measured store counts calls by kind and outcome, and changes nothing else."""

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.errors import NodeExistsError, NoNodeError
from magnetar.metadata.measured_store import MeasuredStore
from magnetar.metadata.store import CreateOp, PutOp


async def test_calls_are_counted_by_kind_and_outcome() -> None:
    store = MeasuredStore(MemoryStore())
    await store.create("/a", b"12345")
    await store.put("/a", b"123")
    await store.multi([CreateOp("/b", b"12"), PutOp("/a", b"1")])
    record = await store.get("/a")
    assert record is not None
    assert record.value == b"1"
    assert await store.children("/") == ["a", "b"]
    with pytest.raises(NodeExistsError):
        await store.create("/a")
    with pytest.raises(NoNodeError):
        await store.delete("/missing")
    await store.delete("/b")
    counts = {key: histogram.count for key, histogram in store.latencies.items()}
    assert counts == {
        ("get", "success"): 2,
        ("get", "fail"): 0,
        ("put", "success"): 3,
        ("put", "fail"): 1,
        ("del", "success"): 1,
        ("del", "fail"): 1,
    }
    assert store.put_bytes == 11
    await store.close()
