"""A client for BookKeeper clusters, ours or Apache's: replicated, fenced, append-only ledgers.

    async with connect("zk+hierarchical://127.0.0.1:2181/ledgers") as bookkeeper:
        ledger = await bookkeeper.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
        entry_id = await ledger.add(b"hello")
        await ledger.close()

docs/BOOKKEEPER_CLIENT.md describes the whole interface.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from magnetar.metadata.zookeeper.service_uri import parse_service_uri
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.storage.ledger.adv_handle import WriteAdvHandle
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import (
    BookieTimeout,
    DigestMismatch,
    DuplicateEntryId,
    IncorrectParameter,
    LedgerClosed,
    LedgerError,
    LedgerExists,
    LedgerFenced,
    LedgerRecoveryFailed,
    NoSuchEntry,
    NoSuchLedger,
    NotEnoughBookies,
    UnauthorizedAccess,
)
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.read_handle import ReadHandle
from magnetar.storage.ledger.tailing import TailHandle
from magnetar.storage.ledger.wire_config import WireConfig
from pulsar_proto.records.entry_digest import DigestType

__all__ = [
    "BookKeeper",
    "BookieTimeout",
    "DigestMismatch",
    "DigestType",
    "DuplicateEntryId",
    "IncorrectParameter",
    "LedgerClosed",
    "LedgerConfig",
    "LedgerError",
    "LedgerExists",
    "LedgerFenced",
    "LedgerRecoveryFailed",
    "NoSuchEntry",
    "NoSuchLedger",
    "NotEnoughBookies",
    "ReadHandle",
    "TailHandle",
    "UnauthorizedAccess",
    "WireConfig",
    "WriteAdvHandle",
    "WriteHandle",
    "connect",
]


@asynccontextmanager
async def connect(
    metadata_service_uri: str,
    *,
    config: LedgerConfig | None = None,
    wire: WireConfig | None = None,
    session_timeout_ms: int = 30_000,
) -> AsyncIterator[BookKeeper]:
    """Gives a client of the cluster whose records are at `zk+hierarchical://host:port[;host:port]/ledgers`.

    Ledgers that are still open when the block ends are not closed; the next client that opens one recovers it. Raises
    ValueError for a malformed URI, and magnetar.metadata.errors.MetadataError when ZooKeeper cannot be reached.
    """
    uri = parse_service_uri(metadata_service_uri)
    store = await ZooKeeperStore.open(uri.connect, session_timeout_ms=session_timeout_ms)
    try:
        cluster = await BookKeeperCluster.connect(store, config=config, wire=wire)
        try:
            yield cluster.bookkeeper
        finally:
            await cluster.close()
    finally:
        await store.close()
