"""The registered bookies: what their records say, and that changes are noticed."""

import asyncio

import pytest

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.ledger.bookie_registry import BookieRegistry, Bookies, address_in_registration
from pulsar_proto.pb import bookkeeper_pb2 as pb


def registration(host: str, port: int, protocol: str = "bookie-rpc") -> bytes:
    endpoint = pb.BookieServiceInfoFormat.Endpoint(id="bookie", port=port, host=host, protocol=protocol)
    return pb.BookieServiceInfoFormat(endpoints=[endpoint]).SerializeToString()


async def test_a_bookie_that_comes_goes_or_turns_read_only_is_noticed() -> None:
    store = MemoryStore()
    bookies = store.session()
    await bookies.create(paths.bookie_path("b1"), registration("h1", 1), ephemeral=True, make_parents=True)
    registry = BookieRegistry(store)
    await registry.start()
    changed = asyncio.Event()
    registry.on_change(changed.set)
    forgotten: list[bool] = []
    cancel = registry.on_change(lambda: forgotten.append(True))
    cancel()
    cancel()
    assert registry.bookies == Bookies({"b1": ("h1", 1)}, {})

    async def noticed() -> Bookies:
        async with asyncio.timeout(60):
            await changed.wait()
        changed.clear()
        return registry.bookies

    await bookies.create(paths.bookie_path("b2", read_only=True), registration("h2", 2), make_parents=True)
    assert await noticed() == Bookies({"b1": ("h1", 1)}, {"b2": ("h2", 2)})
    assert registry.writable() == ["b1"]
    assert registry.bookies.all == {"b1", "b2"}
    await bookies.close()
    assert (await noticed()).writable == {}
    assert forgotten == []
    assert registry.address_of("b1") == ("h1", 1), "still known: it may be asked for what it has"
    await registry.stop()
    await registry.stop()


async def test_a_cluster_without_records_has_no_bookies() -> None:
    registry = BookieRegistry(MemoryStore())
    await registry.start()
    assert registry.bookies == Bookies()
    assert registry.address_of("10.0.0.1:3181") == ("10.0.0.1", 3181)
    with pytest.raises(LookupError, match="not registered"):
        registry.address_of("bookie-1")
    await registry.stop()


@pytest.mark.parametrize(
    ("bookie_id", "value", "address"),
    [
        ("name", registration("host", 7), ("host", 7)),
        ("name", registration("host", 7, "http"), None),
        ("host:3181", b"", ("host", 3181)),
        ("name", b"", None),
        ("host:3181", b"\xff", None),
    ],
)
def test_the_address_is_that_of_the_endpoint_for_clients(
    bookie_id: str, value: bytes, address: tuple[str, int] | None
) -> None:
    assert address_in_registration(bookie_id, value) == address
