"""The cursors of one managed ledger: the durable cursors by name, and the cursors of readers, which are not durable."""

import asyncio
import logging
from collections.abc import Mapping

from magnetar.metadata.errors import MetadataError, NoNodeError
from magnetar.metadata.paths import cursor_path, managed_ledger_path
from magnetar.storage.managed.ack_state import AckState
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.cursor_store import CursorStore
from magnetar.storage.managed.gaps import Gap
from magnetar.storage.managed.keeping_rules import Need
from magnetar.storage.managed.lazy_lock import LazyLock
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import (
    CursorExists,
    ManagedLedgerError,
    ManagedLedgerFenced,
    MetaStoreFault,
    NoSuchCursor,
)
from magnetar.storage.managed.part_owner import PartOwner
from magnetar.storage.managed.shared_by_ledgers import SharedByLedgers
from magnetar.storage.managed.versioned_record import VersionedRecord
from pulsar_proto.ids import Position
from pulsar_proto.names import decode_local

logger = logging.getLogger(__name__)

AT_ONCE = 32
"""How many cursors are recovered in parallel."""

UNSURE_MAX = 1_000
"""How many cursors are remembered whose creation got no answer. The nodes of further cursors are found when the managed
ledger is opened again."""

SKIPPED_AT_ONCE = 1_000
"""How many lost entries a cursor acknowledges before the event loop runs other tasks."""


class CursorTable(LazyLock):
    """All cursors of one managed ledger."""

    __slots__ = (
        "_config",
        "_label",
        "_ledgers",
        "_name",
        "_non_durable",
        "_owner",
        "_shared",
        "_unsure",
        "durable",
        "held",
    )

    def __init__(
        self,
        name: str,
        label: str,
        config: ManagedLedgerConfig,
        shared: SharedByLedgers,
        ledgers: LedgerList,
        owner: PartOwner,
    ) -> None:
        self._name = name
        self._label = label
        self._config = config
        self._shared = shared
        self._ledgers = ledgers
        self._owner = owner
        self._lock_made = None
        self._non_durable: dict[Cursor, None] | None = None
        """The cursors of readers, in order; None while there are none."""
        self.held: tuple[Need, ...] = ()
        """Positions after which no entry may be deleted, as if a durable cursor stood there; see
        `ManagedLedger.hold`."""
        self._unsure: dict[str, CursorStore] | None = None
        """The stores of cursors whose creation failed. Their nodes may exist nevertheless."""
        self.durable: dict[str, Cursor] = {}

    def needs(self) -> list[Need]:
        """Returns from where on each durable cursor, and each holder of a position, needs the log."""
        return [*(Need(cursor.name, cursor.needed_from) for cursor in self.durable.values()), *self.held]

    def hold(self, need: Need) -> None:
        """Adds to `held`."""
        self.held = (*self.held, need)

    def let_go(self, need: Need) -> None:
        """Removes from `held` exactly this object."""
        self.held = tuple(each for each in self.held if each is not need)

    async def recover(self) -> None:
        """Recovers all durable cursors from the metadata store. Raises MetaStoreFault, CursorFault."""
        try:
            children = await self._shared.metadata.children(managed_ledger_path(self._name))
        except NoNodeError:
            children = []
        except MetadataError as error:
            raise MetaStoreFault(self._label, str(error)) from error
        if len(children) == 1:  # the usual case needs no task
            await self._recover(decode_local(children[0]))
            return
        limit = asyncio.Semaphore(AT_ONCE)

        async def recover(name: str) -> None:
            async with limit:
                await self._recover(name)

        await asyncio.gather(*(recover(decode_local(child)) for child in children))

    async def _recover(self, name: str) -> None:
        store = self._store(name)
        stored = await store.recover(self._ledgers)
        mark_delete = stored.mark_delete
        last = self._ledgers.last_entry(mark_delete.ledger_id)
        if last is not None and mark_delete.entry_id > last:
            logger.warning("%s: cursor %s at %s is beyond entry %d", self._label, name, mark_delete, last)
            mark_delete = Position(mark_delete.ledger_id, last)
        acks = AckState(self._ledgers, mark_delete)
        acks.restore(stored.acked, stored.partial)
        self.durable[name] = self._cursor(name, acks, store, stored.properties)

    async def open(self, name: str, initial: Position, properties: Mapping[str, str]) -> Cursor:
        """Returns the durable cursor of that name, and creates it if there is none (`ManagedLedger.open_cursor`)."""
        async with self._lock:
            cursor = self.durable.get(name)
            if cursor is not None:
                return cursor
            # A trim that is under way may still delete ledgers, so this task waits until that trim has ended. Then
            # `held` keeps the next trim from deleting what the new cursor needs.
            await self._owner.trim_ended()
            acks = AckState(self._ledgers, Position(-1, -1))
            acks.reset(self._ledgers.start_of(initial))
            store = (self._unsure or {}).pop(name, None) or self._store(name)
            held = Need(name, acks.mark_delete)
            self.hold(held)
            try:
                await store.create(acks.mark_delete, properties)
            except CursorExists:
                return await self._adopt(name)
            except MetaStoreFault:
                if self._unsure is None:
                    self._unsure = {}
                if len(self._unsure) < UNSURE_MAX:
                    self._unsure[name] = store
                raise
            finally:
                self.let_go(held)
            cursor = self.durable[name] = self._cursor(name, acks, store, {})
            logger.info("%s: cursor %s created at %s", self._label, name, cursor.mark_delete)
            return cursor

    async def _adopt(self, name: str) -> Cursor:
        """Recovers a cursor that the former owner created after this owner had listed the cursors. Raises
        ManagedLedgerFenced, before the cursor is touched, when it belongs to a new owner; MetaStoreFault, CursorFault.
        """
        try:
            await self._owner.check_owner()
        except ManagedLedgerFenced as error:
            self._owner.fence(error)
            raise
        await self._recover(name)
        logger.info("%s: cursor %s was created by the former owner", self._label, name)
        return self.durable[name]

    def new_non_durable(self, start: Position) -> Cursor:
        """Returns a new cursor that is never stored (`ManagedLedger.new_non_durable_cursor`)."""
        acks = AckState(self._ledgers, Position(-1, -1))
        acks.reset(self._ledgers.start_of(start))
        cursor = self._cursor("", acks, None, {})
        if self._non_durable is None:
            self._non_durable = {}
        self._non_durable[cursor] = None
        return cursor

    def release(self, cursor: Cursor) -> None:
        """Forgets a non-durable cursor."""
        if self._non_durable is not None:
            self._non_durable.pop(cursor, None)

    async def delete(self, name: str) -> Cursor:
        """Deletes a durable cursor. Raises NoSuchCursor, MetaStoreFault (then the cursor is still there)."""
        async with self._lock:
            cursor = self.durable.get(name)
            if cursor is None:
                raise NoSuchCursor(self._label, name)
            await cursor.delete()
            del self.durable[name]
            logger.info("%s: cursor %s deleted", self._label, name)
            return cursor

    def forget_before(self, ledger_id: int) -> None:
        """Tells all cursors that the ledgers before `ledger_id` were deleted."""
        for cursor in (*self.durable.values(), *(self._non_durable or ())):
            cursor.forget_before(ledger_id)

    async def skip(self, gap: Gap) -> None:
        """Makes every cursor acknowledge lost entries (ManagedCursorImpl.skipNonRecoverableLedger), SKIPPED_AT_ONCE at
        a time, because a gap may be as long as a ledger."""
        for cursor in (*self.durable.values(), *(self._non_durable or ())):
            lost = 0
            for first, count in cursor.unacked_runs(gap.ledger_id, gap.first, gap.entries):
                for at in range(first, first + count, SKIPPED_AT_ONCE):
                    part = range(at, min(at + SKIPPED_AT_ONCE, first + count))
                    lost += cursor.ack([(gap.ledger_id, entry_id, None) for entry_id in part])
                    await asyncio.sleep(0)
            if lost and cursor.durable:
                logger.info("%s: cursor %s acknowledged %d lost entries", self._label, cursor.name, lost)

    async def close(self) -> None:
        """Stores all durable cursors. Logs the cursors that cannot be stored."""
        async with self._lock:
            results = await asyncio.gather(
                *(cursor.close() for cursor in self.durable.values()), return_exceptions=True
            )
        for result in results:
            if isinstance(result, ManagedLedgerError):
                logger.warning("%s: not stored on close: %s", self._label, result)
            elif isinstance(result, BaseException):
                raise result

    def stop(self, error: ManagedLedgerError) -> None:
        """Ends storing, because another owner has taken over the managed ledger."""
        for cursor in self.durable.values():
            cursor.stop(error)

    def _cursor_label(self, name: str) -> str:
        return f"{self._label} cursor {name}"

    def _store(self, name: str) -> CursorStore:
        shared = self._shared
        return CursorStore(
            name,
            self._cursor_label(name),
            VersionedRecord(shared.metadata, cursor_path(self._name, name)),
            shared.bookkeeper,
            self._config,
            self._owner,
            clocks=shared.clocks,
            access=shared.access,
        )

    def _cursor(self, name: str, acks: AckState, store: CursorStore | None, properties: Mapping[str, int]) -> Cursor:
        return Cursor(
            name,
            self._cursor_label(name) if store is None else store.label,
            self._ledgers,
            acks,
            store,
            rate_limit=self._config.managed_ledger_default_mark_delete_rate_limit,
            clocks=self._shared.clocks,
            on_dirty=self._shared.on_dirty,
            owner=self._owner,
            position_properties=properties,
        )
