"""The cluster's records of under-replicated ledgers: marks, locks, switches and times of checks. Apache's auto-recovery
reads and writes the same records.

`pulsar_proto.records.underreplication_record` has their paths and bytes. All methods raise MetadataError, and
MalformedRecord for a record that does not decode. Source: ZkLedgerUnderreplicationManager of BookKeeper 4.17.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from random import Random
from typing import NamedTuple

from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.errors import BadVersionError, NodeExistsError, NoNodeError
from magnetar.metadata.store import CancelWatch, MetadataStore, WatchCallback, delete_empty_parents
from magnetar.storage.repair.ephemeral_creation import created_or_undone
from pulsar_proto.records import underreplication_record as records
from pulsar_proto.records.underreplication_record import UnderreplicatedLedger

MARK_ATTEMPTS_MAX = 100
"""How often `mark` tries its compare-and-set. All workers and auditors of a cluster may write a mark at the same
time."""


class ReplicationDisabled(Exception):
    """Auto-recovery is switched off in this cluster (`magnetar bk autorecovery --enable` switches it on)."""


class LockedLedger(NamedTuple):
    """A marked ledger that this process has locked in order to heal it."""

    ledger_id: int
    mark_version: int
    """The version that the mark had when the ledger was locked: the mark may be deleted only in this version."""


class Underreplication:
    """The records below `/ledgers/underreplication` of one metadata store."""

    def __init__(self, store: MetadataStore, *, now_ms: Callable[[], int]) -> None:
        """`now_ms()` returns milliseconds since the epoch; marks and checks get this time."""
        self._store = store
        self._now_ms = now_ms

    async def prepare(self) -> None:
        """Makes the records that must exist before any other call. Raises MalformedRecord when the layout record names
        a layout that is not known."""
        for path, value in (
            (records.ROOT, b""),
            (records.LAYOUT, records.LAYOUT_VALUE),
            (records.LEDGERS, b""),
            (records.LOCKS, b""),
            (records.ELECTION, b""),
        ):
            with contextlib.suppress(NodeExistsError):
                await self._store.create(path, value, make_parents=True)
        layout = await self._store.get(records.LAYOUT)
        if layout is not None:
            records.check_layout(layout.value)

    def watch(self, callback: WatchCallback) -> CancelWatch:
        """Calls `callback` at every change of marks, locks, switches and votes, until the returned function is
        called."""
        return self._store.watch(records.ROOT, callback, recursive=True)

    # Marks

    async def mark(self, ledger_id: int, replicas: Iterable[str]) -> None:
        """Marks a ledger that lacks its copies on the bookies `replicas`. If the ledger has a mark, the bookies are
        added to the mark. This changes the mark's version, so that a worker that heals the ledger at this moment leaves
        the mark behind."""
        replicas = tuple(replicas)

        def add_replicas(value: bytes | None) -> bytes:
            known = UnderreplicatedLedger(()) if value is None else UnderreplicatedLedger.parse(value)
            return known.merged(replicas, self._now_ms()).serialize()

        path = records.mark_path(ledger_id)
        await update_record(self._store, path, add_replicas, attempts_max=MARK_ATTEMPTS_MAX)

    async def get(self, ledger_id: int) -> UnderreplicatedLedger | None:
        """Returns the mark of a ledger, or None when the ledger is not marked."""
        record = await self._store.get(records.mark_path(ledger_id))
        return None if record is None else UnderreplicatedLedger.parse(record.value)

    async def marked(self, rng: Random | None = None) -> AsyncIterator[int]:
        """Yields the marked ledgers in the order of their ids, or, with `rng`, in a random order, so that the workers
        of a cluster do not all try the same ledger first."""
        pending = [records.LEDGERS]
        while pending:
            path = pending.pop()
            names = await self._children(path)
            if rng is None:
                names.reverse()
            else:
                rng.shuffle(names)
            for name in names:
                ledger_id = records.ledger_id_of_name(name)
                if ledger_id is None:
                    pending.append(f"{path}/{name}")
                else:
                    yield ledger_id

    async def forget(self, ledger_id: int, mark_version: int | None = None) -> None:
        """Deletes a ledger's mark, and the parents that become empty. The mark stays if its version is not
        `mark_version`; None stands for any version."""
        path = records.mark_path(ledger_id)
        try:
            await self._store.delete(path, mark_version)
        except (BadVersionError, NoNodeError):
            return
        await delete_empty_parents(self._store, path, records.LEDGERS)

    # Locks

    async def lock_any(self, holder: str, rng: Random) -> LockedLedger | None:
        """Locks one of the marked ledgers that nobody has locked. Returns None when there is no such ledger."""
        held = set(await self.locks())
        async for ledger_id in self.marked(rng):
            if ledger_id not in held and (locked := await self.lock(ledger_id, holder)) is not None:
                return locked
        return None

    async def lock(self, ledger_id: int, holder: str) -> LockedLedger | None:
        """Locks a ledger. Returns None when another worker has locked the ledger, or the ledger has no mark any
        more."""
        stat = await self._store.exists(records.mark_path(ledger_id))
        if stat is None:
            return None
        create = self._store.create(
            records.lock_path(ledger_id), records.lock_value(holder), ephemeral=True, make_parents=True
        )
        try:
            await created_or_undone(create, self._store.delete)
        except NodeExistsError:
            return None
        return LockedLedger(ledger_id, stat.version)

    async def release(self, locked: LockedLedger) -> None:
        with contextlib.suppress(NoNodeError):
            await self._store.delete(records.lock_path(locked.ledger_id))

    async def locks(self) -> list[int]:
        """Returns the ids of all locked ledgers: ledgers that are being healed, and ledgers that wait under a lock."""
        names = await self._children(records.LOCKS)
        return [ledger_id for name in names if (ledger_id := records.ledger_id_of_name(name)) is not None]

    async def lock_holder(self, ledger_id: int) -> str | None:
        """Returns the bookie id of the process that has locked the ledger, or None when the ledger is not locked."""
        record = await self._store.get(records.lock_path(ledger_id))
        return None if record is None else records.lock_holder(record.value)

    # Switches

    async def is_enabled(self) -> bool:
        return await self._store.exists(records.DISABLE) is None

    async def enable(self) -> bool:
        """Switches auto-recovery on in the whole cluster; returns False when it was on already."""
        try:
            await self._store.delete(records.DISABLE)
        except NoNodeError:
            return False
        return True

    async def disable(self) -> bool:
        """Switches auto-recovery off in the whole cluster; returns False when it was off already."""
        try:
            await self._store.create(records.DISABLE, make_parents=True)
        except NodeExistsError:
            return False
        return True

    async def recovery_delay(self) -> int | None:
        """Returns the cluster's lostBookieRecoveryDelay in seconds, or None when no auditor has written it yet."""
        record = await self._store.get(records.LOST_BOOKIE_RECOVERY_DELAY)
        return None if record is None else records.delay_of(record.value)

    async def set_recovery_delay(self, seconds: int) -> None:
        """Writes the cluster's lostBookieRecoveryDelay. Writing the present value again asks the auditor for an audit
        at once."""
        await self._write(records.LOST_BOOKIE_RECOVERY_DELAY, records.delay_value(seconds))

    async def prepare_recovery_delay(self, seconds: int) -> int:
        """Writes the cluster's lostBookieRecoveryDelay unless it was written before. Returns the value that is stored
        now."""
        with contextlib.suppress(NodeExistsError):
            await self._store.create(
                records.LOST_BOOKIE_RECOVERY_DELAY, records.delay_value(seconds), make_parents=True
            )
        known = await self.recovery_delay()
        return seconds if known is None else known

    async def trigger_audit(self) -> None:
        """Asks the auditor to audit now. Raises ReplicationDisabled when auto-recovery is switched off."""
        if not await self.is_enabled():
            raise ReplicationDisabled("auto-recovery is disabled in this cluster: nothing would be audited")
        await self.set_recovery_delay(await self.recovery_delay() or 0)

    async def check_time(self, path: str) -> int | None:
        """Returns the time at which the check whose record is at `path` last ended, in milliseconds since the epoch, or
        None when the check never ended."""
        record = await self._store.get(path)
        return None if record is None else records.check_time(record.value)

    async def set_check_time(self, path: str) -> None:
        """Writes that the check whose record is at `path` has just ended."""
        await self._write(path, records.check_time_value(self._now_ms()))

    async def _write(self, path: str, value: bytes) -> None:
        """Writes a record, whether it exists or not."""
        try:
            await self._store.create(path, value, make_parents=True)
        except NodeExistsError:
            await self._store.put(path, value)

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._store.children(path)
        except NoNodeError:
            return []
