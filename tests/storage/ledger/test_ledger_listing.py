"""The list of all ledgers, by which bookies decide what is garbage."""

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.ledger.ledger_listing import list_ledgers
from pulsar_proto.records.ledger_record import ledger_path


async def test_lists_short_and_long_ids_and_nothing_else() -> None:
    store = MemoryStore()
    ids = {0, 7, 12345, 2**31 - 2, 2**31 - 1, 4294967303, 2**63 - 1}
    for ledger_id in ids:
        await store.create(ledger_path(ledger_id), b"", make_parents=True)
    for other in ("/ledgers/LAYOUT", "/ledgers/cookies/b1:3181", "/ledgers/idgen/ID-0000000001", "/ledgers/00/junk"):
        await store.create(other, b"", make_parents=True)
    assert await list_ledgers(store) == ids


async def test_an_empty_store_has_no_ledgers() -> None:
    assert await list_ledgers(MemoryStore()) == set()
