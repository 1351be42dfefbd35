"""Finds out which copies of a ledger are missing, by asking the bookies that should have them.

`repair_rules` decides for which entries the checker asks. Source: LedgerChecker of BookKeeper 4.17.
"""

import asyncio
import logging
from typing import NamedTuple

from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.last_confirmed import ask_last_entries
from magnetar.storage.ledger.ledger_errors import BookieOverloaded, BookieTimeout, LedgerError
from magnetar.storage.ledger.metadata_driver import VersionedMetadata
from magnetar.storage.ledger.replica_reader import ReplicaReader
from magnetar.storage.repair.repair_rules import DamagedFragment, LedgerFragment, entries_to_verify, fragments_of
from pulsar_proto.records.entry_digest import DigestType, EntryCodec, master_key
from pulsar_proto.records.ledger_record import LedgerMetadata

log = logging.getLogger(__name__)

OLDEST_DIGEST = DigestType.CRC32
"""The digest of ledgers whose records name no digest. BookKeeper's first versions wrote such records
(bookieRecoveryDigestType)."""

READS_AT_ONCE = 64
"""How many entries one checker asks for at the same time; further reads wait for their turn."""

BUSY_TRIES = 3
BUSY_SECONDS = 1.0
"""The pause before a bookie that is busy, or does not answer in time, is asked again; such a bookie is asked BUSY_TRIES
times in all."""


class OpenedLedger(NamedTuple):
    """A ledger that was opened for reading without recovery, with the password from the ledger's record."""

    ledger: VersionedMetadata
    last_add_confirmed: int
    """The last entry id of a closed ledger. For an open ledger this is the highest LAC that the ledger's bookies
    report, or, if too few bookies answer, the id of the entry before the last fragment, because all entries before a
    fragment are confirmed."""
    reader: ReplicaReader
    master_key: bytes

    @property
    def metadata(self) -> LedgerMetadata:
        return self.ledger.metadata

    @property
    def fragments(self) -> list[LedgerFragment]:
        return fragments_of(self.metadata, self.last_add_confirmed)


class LedgerChecker:
    """Opens ledgers without fencing them, and asks their bookies for a sample of the entries that each should hold."""

    def __init__(self, cluster: BookKeeperCluster, *, percentage: int = 0) -> None:
        """`percentage` is the share of a bookie's entries of a fragment that is read in addition to the first and the
        last entry."""
        self._cluster = cluster
        self._percentage = percentage
        self._limit = asyncio.Semaphore(READS_AT_ONCE)

    async def open(self, ledger_id: int) -> OpenedLedger:
        """Reads the ledger's record, and asks for the last confirmed entry when the ledger is open.

        Raises NoSuchLedger, LedgerMetadataFault, MetadataDamaged.
        """
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

    async def check(self, opened: OpenedLedger) -> list[DamagedFragment]:
        """Returns the fragments that lack copies, each with the bookies that should have had them.

        Never raises LedgerError: a bookie that does not answer counts as a bookie without its copies.
        """
        fragments = opened.fragments
        found = await asyncio.gather(
            *(
                self._is_missing(opened, fragment, index)
                for fragment in fragments
                for index in range(len(fragment.members))
            )
        )
        answers = iter(found)
        damaged = []
        for fragment in fragments:
            missing = {index: bookie for index, bookie in enumerate(fragment.members) if next(answers)}
            if missing:
                damaged.append(DamagedFragment(fragment, missing))
        return damaged

    async def _is_missing(self, opened: OpenedLedger, fragment: LedgerFragment, index: int) -> bool:
        """Returns whether the member at `index` lacks its copies of a fragment.

        An unregistered bookie counts as lacking its copies and is not asked. A registered bookie that should hold no
        entry of the fragment lacks nothing.
        """
        bookie = fragment.members[index]
        if bookie not in self._cluster.registry.bookies.all:
            return True
        write_quorum = opened.metadata.write_quorum
        for entry_id in entries_to_verify(fragment, index, write_quorum, self._percentage):
            try:
                await self._read(opened, bookie, entry_id)
            except LedgerError as error:
                log.info("ledger %d: a copy is missing: %s", opened.metadata.ledger_id, error)
                return True
        return False

    async def _read(self, opened: OpenedLedger, bookie: str, entry_id: int) -> None:
        """Reads one entry from one bookie. Raises LedgerError when the bookie has no good copy or does not answer.

        A busy bookie is asked again. If a busy bookie counted as a bookie without copies, its entries would be copied,
        which would make this bookie and others still busier.
        """
        for _ in range(BUSY_TRIES - 1):
            try:
                async with self._limit:
                    await opened.reader.entry_of(bookie, entry_id)
                return
            except (BookieOverloaded, BookieTimeout):
                await asyncio.sleep(BUSY_SECONDS)
        async with self._limit:
            await opened.reader.entry_of(bookie, entry_id)
