"""Finds which copies of a ledger are missing, by asking the bookies that should have them.

The decisions are in `rules`. Source: LedgerChecker of BookKeeper 4.17 (facts 7).
"""

import asyncio
import logging
from typing import NamedTuple

from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.last_confirmed import ask_last_entries
from magnetar.storage.ledger.ledger_errors import BookieOverloaded, BookieTimeout, LedgerError
from magnetar.storage.ledger.metadata_driver import Versioned
from magnetar.storage.ledger.replica_reader import ReplicaReader
from magnetar.storage.repair.repair_rules import Damaged, Part, entries_to_verify, parts_of
from pulsar_proto.records.entry_digest import DigestType, EntryCodec, master_key
from pulsar_proto.records.ledger_record import LedgerMetadata

log = logging.getLogger(__name__)

OLDEST_DIGEST = DigestType.CRC32
"""Of records of BookKeeper's first versions, which name none (bookieRecoveryDigestType)."""


READS_AT_ONCE = 64
"""Entries that are asked for and not yet there."""


BUSY_TRIES = 3
BUSY_SECONDS = 1.0


class OpenedLedger(NamedTuple):
    """A ledger that is looked at without recovery, with the password of its own record."""

    ledger: Versioned
    last_add_confirmed: int
    """Of an open ledger: what the bookies say, or the floor when too few of them answer."""
    reader: ReplicaReader
    master_key: bytes

    @property
    def metadata(self) -> LedgerMetadata:
        return self.ledger.metadata

    @property
    def parts(self) -> list[Part]:
        return parts_of(self.metadata, self.last_add_confirmed)


class LedgerChecker:
    def __init__(self, cluster: BookKeeperCluster, *, percentage: int = 0) -> None:
        """`percentage` of each fragment's entries is read besides the first and the last."""
        self._cluster = cluster
        self._percentage = percentage
        self._limit = asyncio.Semaphore(READS_AT_ONCE)

    async def open(self, ledger_id: int) -> OpenedLedger:
        """Raises NoSuchLedger, MetadataFault, MetadataDamaged."""
        ledger = await self._cluster.driver.read(ledger_id)
        metadata = ledger.metadata
        password = metadata.password or b""
        key = master_key(password)
        codec = EntryCodec(ledger_id, metadata.digest_type or OLDEST_DIGEST, password)
        reader = ReplicaReader(ledger_id, key, codec, self._cluster.channels, self._cluster.config)
        last = metadata.last_entry_id
        if not metadata.is_closed:
            try:
                last = (await ask_last_entries(reader, metadata, flags=0)).entry_id
            except LedgerError as error:
                last = metadata.last_ensemble[0] - 1
                log.info("ledger %d: its last confirmed entry is not known, at least %d: %s", ledger_id, last, error)
        return OpenedLedger(ledger, last, reader, key)

    async def check(self, opened: OpenedLedger) -> list[Damaged]:
        """The parts that lack copies. Never raises a LedgerError: a bookie that does not answer has no copy."""
        parts = opened.parts
        found = await asyncio.gather(
            *(self._is_missing(opened, part, index) for part in parts for index in range(len(part.members)))
        )
        answers = iter(found)
        damaged = []
        for part in parts:
            missing = {index: bookie for index, bookie in enumerate(part.members) if next(answers)}
            if missing:
                damaged.append(Damaged(part, missing))
        return damaged

    async def _is_missing(self, opened: OpenedLedger, part: Part, index: int) -> bool:
        """A bookie that is not registered need not be asked; one that should have nothing cannot be."""
        bookie = part.members[index]
        if bookie not in self._cluster.registry.bookies.all:
            return True
        write_quorum = opened.metadata.write_quorum
        for entry_id in entries_to_verify(part, index, write_quorum, self._percentage):
            try:
                await self._read(opened, bookie, entry_id)
            except LedgerError as error:
                log.info("ledger %d: a copy is missing: %s", opened.metadata.ledger_id, error)
                return True
        return False

    async def _read(self, opened: OpenedLedger, bookie: str, entry_id: int) -> None:
        """A bookie that is busy is asked again: copying what it has would make it, and others, busier still."""
        for _ in range(BUSY_TRIES - 1):
            try:
                async with self._limit:
                    await opened.reader.entry_of(bookie, entry_id)
                return
            except (BookieOverloaded, BookieTimeout):
                await asyncio.sleep(BUSY_SECONDS)
        async with self._limit:
            await opened.reader.entry_of(bookie, entry_id)
