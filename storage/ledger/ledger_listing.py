"""Lists the ledgers that the metadata store knows, for a bookie's garbage collector.

Source: HierarchicalLedgerManager.getLedgerRanges of BookKeeper.
"""

from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.paths import LEDGERS_ROOT
from magnetar.metadata.store import MetadataStore
from pulsar_proto.records.ledger_record import ledger_id_of_path

DEEPEST = 5
"""How many levels below the root a long id has, as in `/ledgers/000/0000/0042/9496/L7303`. A short id has three."""


async def list_ledgers(store: MetadataStore, root: str = LEDGERS_ROOT) -> set[int]:
    """Returns the ids of all ledgers, open or closed. Passes over other records below the root (cookies, bookies, …).

    A ledger that is created or deleted meanwhile may or may not be among them. Raises MetadataError.
    """
    found: set[int] = set()
    level = [f"{root}/{name}" for name in await _children(store, root) if name.isdecimal()]
    for _ in range(DEEPEST - 1):
        below = [f"{path}/{name}" for path in level for name in await _children(store, path)]
        found.update(id for path in below if (id := ledger_id_of_path(path, root)) is not None)
        level = [path for path in below if path.rpartition("/")[2].isdecimal()]
    return found


async def _children(store: MetadataStore, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNodeError:
        return []
