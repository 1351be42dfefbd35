"""Copies what is missing of a ledger to other bookies and writes these into its record.

Entries are copied as they were read, byte for byte (Apache's worker packs them again with its own LAC). Nothing is
written to the record before every target has every entry; the write is compare-and-set on the fragment's members.
Source: LedgerFragmentReplicator of BookKeeper 4.17 (facts 7).
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.channel_lookup import find_channel
from magnetar.storage.ledger.ledger_errors import BookieTimeout, LedgerError, NotEnoughBookies, error_class
from magnetar.storage.ledger.metadata_driver import Versioned
from magnetar.storage.ledger.quorum_rules import held_ids
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.checker import OpenedLedger
from magnetar.storage.repair.repair_rules import Damaged, Pacer, Part, holders_of, targets_of, with_replaced
from pulsar_proto.wire.bookie_wire import AddFlags

log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 1 << 20
"""Of entries that are held at once for one fragment; a single larger entry goes alone."""

_RECOVERY_ADD = int(AddFlags.RECOVERY_ADD)


@dataclass(slots=True)
class Copied:
    """What was done, for the log and for tools."""

    entries: int = 0
    bytes: int = 0
    fragments: int = 0


class Replicator:
    def __init__(self, cluster: BookKeeperCluster, config: AutoRecoveryConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._pacer = Pacer(config.replication_rate_by_bytes)

    async def heal(self, opened: OpenedLedger, damaged: Sequence[Damaged], *, without: Collection[str] = ()) -> Copied:
        """Heals the closed parts, each as far as it can; no copy goes to the bookies `without`.

        Raises the first LedgerError, after the other parts were tried.
        """
        copied = Copied()
        failure: LedgerError | None = None
        ledger = opened.ledger
        for one in damaged:
            if not one.part.is_closed:
                continue
            try:
                ledger = await self._heal_part(opened, ledger, one, without, copied)
            except LedgerError as error:
                log.warning(
                    "ledger %d: entries %d to %d are not healed: %s: %s",
                    opened.metadata.ledger_id,
                    one.part.first,
                    one.part.last,
                    type(error).__name__,
                    error,
                )
                failure = failure or error
        if failure is not None:
            raise failure
        return copied

    async def _heal_part(
        self, opened: OpenedLedger, ledger: Versioned, damaged: Damaged, without: Collection[str], copied: Copied
    ) -> Versioned:
        """The ledger's record afterwards."""
        part, ledger_id = damaged.part, opened.metadata.ledger_id
        targets = self._choose_targets(damaged, opened.metadata.write_quorum, without)
        if not targets:
            names = ", ".join(sorted(damaged.missing.values()))
            raise NotEnoughBookies(f"ledger {ledger_id}: no writable bookie is left to replace {names}")
        before = copied.entries
        await self._copy(opened, part, targets, copied)
        changes = {index: (damaged.missing[index], bookie) for index, bookie in targets.items()}
        ledger = await self._cluster.driver.update(
            ledger, lambda metadata: with_replaced(metadata, part.first, changes)
        )
        copied.fragments += 1
        log.info(
            "ledger %d: entries %d to %d: %s (%d copies)",
            ledger_id,
            part.first,
            part.last,
            ", ".join(f"{old} → {new}" if old != new else f"{old} healed" for old, new in changes.values()),
            copied.entries - before,
        )
        if len(targets) < len(damaged.missing):
            raise NotEnoughBookies(
                f"ledger {ledger_id}: {len(damaged.missing)} bookies are to be replaced, there were {len(targets)}"
            )
        return ledger

    def _choose_targets(self, damaged: Damaged, write_quorum: int, without: Collection[str]) -> dict[int, str]:
        members = damaged.part.members
        try:
            placed = self._cluster.placement.replace(members, damaged.missing, write_quorum, without)
        except NotEnoughBookies:
            placed = members
        return targets_of(damaged, placed, self._cluster.registry.writable(), without=without)

    async def _copy(self, opened: OpenedLedger, part: Part, targets: Mapping[int, str], copied: Copied) -> None:
        metadata = opened.metadata
        position = part.first
        while position <= part.last:
            last = min(part.last, position + self._config.rereplication_entry_batch_size - 1)
            if metadata.ensemble_size == metadata.write_quorum:
                run = await opened.reader.read(metadata, position, last, BATCH_BYTES_MAX)
                entries = dict(enumerate(run, start=position))
                position += len(run)
            else:
                entries, position = await self._read_striped(opened, part, targets, position, last)
            await self._add(opened, targets, entries)
            copied.entries += len(entries)
            size = sum(map(len, entries.values()))
            copied.bytes += size
            pause = self._pacer.spend(size, asyncio.get_running_loop().time())
            if pause > 0:
                await asyncio.sleep(pause)

    async def _read_striped(
        self, opened: OpenedLedger, part: Part, targets: Mapping[int, str], first: int, last: int
    ) -> tuple[dict[int, bytes], int]:
        """(entries that a target must have, where to go on): single reads, some at once, up to the limit of bytes."""
        metadata = opened.metadata
        wanted = [e for e in range(first, last + 1) if holders_of(part, e, targets, metadata.write_quorum)]
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
        """Returns when every target has its share durably."""
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
        ledger_id = opened.metadata.ledger_id
        left = len(ids)
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def done(some: Sequence[int], rc: int) -> None:
            nonlocal left
            left -= len(some)
            if (rc or not left) and not outcome.done():
                outcome.set_result(rc)

        channel = find_channel(self._cluster.channels, bookie)
        channel.add_entries(ledger_id, opened.master_key, ids, entries, _RECOVERY_ADD, done)
        try:
            async with asyncio.timeout(self._cluster.config.add_entry_timeout_sec):
                rc = await outcome
        except TimeoutError:
            raise BookieTimeout(f"ledger {ledger_id}: bookie {bookie} did not take copies in time") from None
        if rc:
            raise error_class(rc, reading=False)(f"ledger {ledger_id}: bookie {bookie} did not take copies: {rc}")
