"""Copies the entries of a ledger that lack copies to other bookies, and writes these bookies into the ledger's record.

Entries are copied byte for byte as they were read, whereas Apache's worker packs the entries again with its own LAC.
The record is written only when every target has stored every entry of the fragment durably, and by compare-and-set on
the fragment's members: a worker that stops in between leaves copies that no record names, and the next worker copies
again. Source: LedgerFragmentReplicator of BookKeeper 4.17.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.channel_lookup import find_channel
from magnetar.storage.ledger.ledger_errors import LedgerError, NotEnoughBookies
from magnetar.storage.ledger.metadata_driver import VersionedMetadata
from magnetar.storage.ledger.quorum_rules import held_ids
from magnetar.storage.ledger.recovery_add import recovery_add
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.ledger_checker import OpenedLedger
from magnetar.storage.repair.repair_rules import (
    CopyPacer,
    DamagedFragment,
    LedgerFragment,
    holders_of,
    targets_of,
    with_replaced,
)
from magnetar.storage.repair.repair_stats import RepairStats
from pulsar_proto.records.ledger_record import LedgerMetadata

log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 1 << 20
"""How many bytes of entries the replicator holds at once for one fragment. The replicator copies a larger entry by
itself."""


@dataclass(slots=True)
class Copied:
    """The amount of copied data, for the log and for tools."""

    entries: int = 0
    bytes: int = 0
    fragments: int = 0


class Replicator:
    """Copies fragments of ledgers, at most at the configured rate."""

    def __init__(
        self, cluster: BookKeeperCluster, config: AutoRecoveryConfig, stats: RepairStats | None = None
    ) -> None:
        """`stats` counts what is copied."""
        self._cluster = cluster
        self._stats = stats or RepairStats()
        self._config = config
        self._pacer = CopyPacer(config.replication_rate_by_bytes)

    async def heal(
        self, opened: OpenedLedger, damaged: Sequence[DamagedFragment], *, without: Collection[str] = ()
    ) -> Copied:
        """Copies the missing entries of the closed fragments in `damaged`. No copy goes to the bookies of `without`.

        After a fragment has failed, the other fragments are still tried; the first LedgerError is raised at the end.
        """
        copied = Copied()
        failure: LedgerError | None = None
        ledger = opened.ledger
        for one in damaged:
            if not one.fragment.is_closed:
                continue
            try:
                ledger = await self._heal_fragment(opened, ledger, one, without, copied)
            except LedgerError as error:
                log.warning(
                    "ledger %d: entries %d to %d are not healed: %s: %s",
                    opened.metadata.ledger_id,
                    one.fragment.first,
                    one.fragment.last,
                    type(error).__name__,
                    error,
                )
                failure = failure or error
        if failure is not None:
            raise failure
        return copied

    async def _heal_fragment(
        self,
        opened: OpenedLedger,
        ledger: VersionedMetadata,
        damaged: DamagedFragment,
        without: Collection[str],
        copied: Copied,
    ) -> VersionedMetadata:
        """Heals one fragment and returns the ledger's new record.

        Raises LedgerError. Raises NotEnoughBookies also when only some of the missing bookies could be replaced.
        """
        fragment, ledger_id = damaged.fragment, opened.metadata.ledger_id
        targets = self._choose_targets(damaged, opened.metadata, without)
        if not targets:
            names = ", ".join(sorted(damaged.missing.values()))
            raise NotEnoughBookies(f"ledger {ledger_id}: no writable bookie is left to replace {names}")
        before = copied.entries
        await self._copy(opened, fragment, targets, copied)
        changes = {index: (damaged.missing[index], bookie) for index, bookie in targets.items()}
        ledger = await self._cluster.driver.update(
            ledger, lambda metadata: with_replaced(metadata, fragment.first, changes)
        )
        copied.fragments += 1
        log.info(
            "ledger %d: entries %d to %d: %s (%d copies)",
            ledger_id,
            fragment.first,
            fragment.last,
            ", ".join(f"{old} → {new}" if old != new else f"{old} healed" for old, new in changes.values()),
            copied.entries - before,
        )
        if len(targets) < len(damaged.missing):
            raise NotEnoughBookies(
                f"ledger {ledger_id}: {len(damaged.missing)} bookies are to be replaced, there were {len(targets)}"
            )
        return ledger

    def _choose_targets(
        self,
        damaged: DamagedFragment,
        metadata: LedgerMetadata,
        without: Collection[str],
    ) -> dict[int, str]:
        members = damaged.fragment.members
        try:
            placed = self._cluster.placement_of(metadata.custom_metadata).replace(
                members, damaged.missing, metadata.write_quorum, without
            )
        except NotEnoughBookies:
            placed = members
        return targets_of(damaged, placed, self._cluster.registry.writable(), without=without)

    async def _copy(
        self, opened: OpenedLedger, fragment: LedgerFragment, targets: Mapping[int, str], copied: Copied
    ) -> None:
        metadata = opened.metadata
        position = fragment.first
        while position <= fragment.last:
            last = min(fragment.last, position + self._config.rereplication_entry_batch_size - 1)
            if metadata.ensemble_size == metadata.write_quorum:
                run = await opened.reader.read(metadata, position, last, BATCH_BYTES_MAX)
                entries = dict(enumerate(run, start=position))
                position += len(run)
            else:
                entries, position = await self._read_striped(opened, fragment, targets, position, last)
            size = sum(map(len, entries.values()))
            self._stats.read(len(entries), size)
            await self._add(opened, targets, entries)
            copied.entries += len(entries)
            copied.bytes += size
            pause = self._pacer.spend(size, asyncio.get_running_loop().time())
            if pause > 0:
                await asyncio.sleep(pause)

    async def _read_striped(
        self, opened: OpenedLedger, fragment: LedgerFragment, targets: Mapping[int, str], first: int, last: int
    ) -> tuple[dict[int, bytes], int]:
        """Reads the entries from `first` to `last` that any target must have. Returns the entries by entry id, and the
        id of the entry to go on with. That id is at most `last` if BATCH_BYTES_MAX was reached.

        In a striped ledger neighbouring entries are on different bookies, so several single reads run at once instead
        of one read of a run.
        """
        metadata = opened.metadata
        wanted = [e for e in range(first, last + 1) if holders_of(fragment, e, targets, metadata.write_quorum)]
        step = self._cluster.config.striped_reads_max
        entries: dict[int, bytes] = {}
        size = 0
        for start in range(0, len(wanted), step):
            ids = wanted[start : start + step]
            found = await asyncio.gather(*(opened.reader.read(metadata, e, e, BATCH_BYTES_MAX) for e in ids))
            entries.update((e, run[0]) for e, run in zip(ids, found, strict=True))
            size += sum(len(run[0]) for run in found)
            if size >= BATCH_BYTES_MAX:
                return entries, ids[-1] + 1
        return entries, last + 1

    async def _add(self, opened: OpenedLedger, targets: Mapping[int, str], entries: Mapping[int, bytes]) -> None:
        """Sends each target the entries that it must have, and returns when all of them are durable on all targets."""
        if not entries:
            return
        metadata = opened.metadata
        first, last = min(entries), max(entries)
        adds = []
        for index, bookie in targets.items():
            held = held_ids(index, first, last - first + 1, metadata.ensemble_size, metadata.write_quorum)
            ids = [entry_id for entry_id in held if entry_id in entries]
            if ids:
                adds.append(self._add_to(opened, bookie, ids, [entries[entry_id] for entry_id in ids]))
        await asyncio.gather(*adds)

    async def _add_to(self, opened: OpenedLedger, bookie: str, ids: Sequence[int], entries: Sequence[bytes]) -> None:
        await recovery_add(
            find_channel(self._cluster.channels, bookie),
            bookie,
            opened.metadata.ledger_id,
            opened.master_key,
            ids,
            entries,
            self._cluster.config.add_entry_timeout_sec,
        )
        self._stats.wrote(len(ids), sum(map(len, entries)))
