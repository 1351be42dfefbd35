"""Stores the position of a durable cursor: in a node of the metadata store and, once the cursor is in use, in a ledger.

    NO LEDGER   the node holds everything: cursorsLedgerId -1, mark-delete, ranges, batches. `_belongs_in_ledger` says
                why a state with half-acknowledged batches stays in a ledger when the cursor is closed.
    LEDGER      the node names the ledger, whose last entry holds everything. The position in the node is an old one,
                for the case that the ledger is lost.

Opening a topic closes the cursor ledgers that it recovers, so a cursor's next change makes a new ledger. A switch to a
new ledger has four steps, and the process may die after any of them: make the ledger; append the position that was
stored last, then the new one; compare-and-set the node; delete the old ledger. In Apache's broker the first entry
combines the old mark-delete with the current ranges. If ranges had been stored before, such an entry would say less
than what was stored, so in that case only the new position is appended (docs/CURSORS.md, "From one cursor ledger to the
next").

If the ledger takes no entry, or no new ledger can be made and written, the node takes the whole state, provided that it
is small enough.

Source: ManagedCursorImpl (internalMarkDelete, startCreatingNewMetadataLedger, persistPositionMetaStore, asyncClose).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from magnetar.metadata.errors import MetadataError, NodeExistsError
from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError, LedgerFenced, NoSuchLedger
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.managed.ack_state import AckState, Extents
from magnetar.storage.managed.clocks import Clocks
from magnetar.storage.managed.cursor_entries import StoredBefore, append_state, fits_one_entry, read_state
from magnetar.storage.managed.cursor_record import (
    NO_LEDGER,
    CursorNode,
    StoredAcks,
    encode_node,
    encode_position,
    parse_node,
)
from magnetar.storage.managed.lazy_lock import LazyLock
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import (
    CursorExists,
    CursorFault,
    ManagedLedgerFenced,
    MetaStoreFault,
)
from magnetar.storage.managed.metadata_access import MetadataAccess
from magnetar.storage.managed.part_owner import PartOwner
from magnetar.storage.managed.versioned_record import SupersededError, VersionedRecord
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position

logger = logging.getLogger(__name__)

LEDGER_BYTES_MAX = 64 * 1024 * 1024
"""A cursor ledger of this size is replaced, however few entries it has, because only its last entries are of use."""

NO_PROPERTIES: dict[str, Any] = {}
"""The properties of most cursors, which share them. Nobody changes this dictionary."""


class CursorStore(LazyLock):
    """The stored state of one cursor. `label` names the cursor in logs. A lock lets one call run at a time."""

    __slots__ = (
        "_access",
        "_bookkeeper",
        "_clocks",
        "_config",
        "_extra",
        "_handle",
        "_ledger_bytes",
        "_ledger_id",
        "_name",
        "_opened_s",
        "_owner",
        "_record",
        "_stored_plain",
        "_stored_position",
        "_stored_properties",
        "_unsure",
        "cursor_properties",
        "label",
        "last_active_ms",
        "ledger_switched_ms",
    )

    def __init__(
        self,
        name: str,
        label: str,
        record: VersionedRecord,
        bookkeeper: BookKeeper,
        config: ManagedLedgerConfig,
        owner: PartOwner,
        *,
        clocks: Clocks,
        access: MetadataAccess,
    ) -> None:
        self._name = name
        self.label = label
        self._record = record
        self._bookkeeper = bookkeeper
        self._config = config
        self._owner = owner
        self._clocks = clocks
        self._access = access
        self._lock_made = None
        self._handle: WriteHandle | None = None
        self._opened_s = 0.0
        self._ledger_bytes = 0
        self._ledger_id = NO_LEDGER
        self._unsure: list[int] = []
        """Ledgers that the node may name, because a write that got no answer may have arrived."""
        self._stored_position = Position(-1, -1)
        self._stored_plain = True
        self._stored_properties: Mapping[str, int] = NO_PROPERTIES
        self._extra = b""
        self.cursor_properties: Mapping[str, str] = NO_PROPERTIES
        self.last_active_ms = clocks.wall_ms()
        """When the cursor was used last. The cursor keeps it up to date; it is written with the node."""
        self.ledger_switched_ms = clocks.wall_ms()
        """When the cursor began to write to its present ledger, or was opened."""

    @property
    def ledger_id(self) -> int:
        """The cursor ledger that the node names, or -1."""
        return self._ledger_id

    @property
    def ledger_last_entry(self) -> int:
        """The last confirmed entry of the cursor ledger that this owner writes to, or -1."""
        return -1 if self._handle is None else self._handle.last_add_confirmed

    # ---- beginnings

    async def create(self, mark_delete: Position, cursor_properties: Mapping[str, str]) -> None:
        """Creates the node. Raises CursorExists when another owner has created it, and MetaStoreFault. After
        MetaStoreFault the caller must call the same object again, because only this object recognises the node if it
        was created and the answer was lost."""
        self.cursor_properties = dict(cursor_properties) or NO_PROPERTIES
        self._stored_position = mark_delete
        value = encode_node(NO_LEDGER, mark_delete, {}, cursor_properties, last_active_ms=self.last_active_ms)
        try:
            await self._record.create(value)
        except (NodeExistsError, SupersededError) as error:
            raise CursorExists(self.label, "created by another owner") from error
        except MetadataError as error:
            raise MetaStoreFault(self.label, str(error)) from error

    async def recover(self, extents: Extents) -> StoredAcks:
        """Returns the state that was stored last. Raises MetaStoreFault, and CursorFault when the state cannot be read
        now."""
        node = await self._load_node(extents)
        acks = await self._acks_of(node, extents)
        while acks is None:
            # A former owner that closes the cursor moves the state to the node and deletes the ledger. If that happened
            # after the node was read, only the node as it is now has the state.
            before, node = node, await self._load_node(extents)
            acks = node.acks if node == before else await self._acks_of(node, extents)
        self.cursor_properties = node.cursor_properties or NO_PROPERTIES
        self._extra, self._ledger_id = node.extra, node.ledger_id
        self.last_active_ms = node.last_active_ms or self.last_active_ms
        self._note_stored(acks.mark_delete, acks.is_plain, acks.properties)
        return acks

    async def _load_node(self, extents: Extents) -> CursorNode:
        try:
            value = await self._record.load()
        except MetadataError as error:
            raise MetaStoreFault(self.label, str(error)) from error
        if value is None:
            raise CursorFault(self.label, "deleted by another owner")
        try:
            return parse_node(value, extents)
        except MalformedRecord as error:
            raise CursorFault(self.label, f"damaged record at {self._record.path}: {error}") from error

    async def _acks_of(self, node: CursorNode, extents: Extents) -> StoredAcks | None:
        """Returns the state in the last entry of the node's cursor ledger, or the state in a node without one. Returns
        None when nothing can be read from the ledger, so that the node's state must be used."""
        ledger_id = node.ledger_id
        if ledger_id == NO_LEDGER:
            return node.acks
        try:
            handle = await self._bookkeeper.open_ledger(ledger_id, recover=True)
        except NoSuchLedger:
            logger.warning("%s: cursor ledger %d does not exist, going on with its node", self.label, ledger_id)
            return None
        except LedgerError as error:
            raise CursorFault(self.label, f"cursor ledger {ledger_id} cannot be recovered: {error}") from error
        acks = await read_state(self.label, handle, extents)
        if acks is None:
            logger.warning("%s: nothing readable in cursor ledger %d, going on with its node", self.label, ledger_id)
        return acks

    # ---- changes

    def append_now(
        self, acks: AckState, properties: Mapping[str, int], done: Callable[[LedgerError | None], None]
    ) -> bool:
        """Begins to store the state without a task, if one small entry in the open cursor ledger is all that is needed.
        That is nearly always so, and with a thousand cursors in use it happens a thousand times in a second. Returns
        False when `persist` has to be called instead. Otherwise calls `done` later, with None when the state is
        durable, or with the error, which the caller hands to `persist`. Until then, the caller makes no other call that
        stores a state."""
        handle = self._handle
        if handle is None or not handle.is_open or self._lock.locked() or self._record.in_doubt:
            return False
        if self._is_due(handle) or not fits_one_entry(acks):
            return False
        position, plain, written = acks.mark_delete, acks.is_plain, dict(properties)
        entry = encode_position(acks, position, written, self._config)

        def appended(append: Append) -> None:
            if append.error is None:
                self._ledger_bytes += len(entry)
                self._note_stored(position, plain, written)
            done(append.error)

        handle.append([entry], appended)
        return True

    async def persist(self, acks: AckState, properties: Mapping[str, int], failed: LedgerError | None = None) -> None:
        """Stores the state in `acks` and `properties`, as it is now or a little later. Both may change meanwhile; the
        written values are consistent with each other. `failed` is the error of an append that `append_now` began: the
        state is then stored elsewhere. Raises CursorFault, ManagedLedgerFenced; after an error the former state is
        still stored."""
        async with self._lock:
            handle = self._handle
            try:
                if failed is not None:
                    raise failed
                # While the last write of the node is in doubt, the node may name another ledger than this one, or none.
                may_stay = handle is not None and handle.is_open and not self._record.in_doubt
                if handle is not None and may_stay and not await self._must_switch(handle):
                    before = StoredBefore(self._stored_position, self._stored_properties, repeat=False)
                    written = await append_state(handle, acks, properties, before, self._config)
                    self._ledger_bytes += written.size
                    self._note_stored(written.position, written.plain, written.properties)
                else:
                    await self._switch_ledger(acks, properties)
            except LedgerFenced as error:
                # The node must not be written now: the new owner has read it and counts on its version.
                raise ManagedLedgerFenced(self.label, f"cursor ledger fenced by another owner: {error}") from error
            except LedgerError as error:
                logger.warning("%s: cursor ledger takes no entry: %s", self.label, error)
                if not self._fits_node(acks):
                    raise CursorFault(self.label, f"{type(error).__name__}: {error}") from error
                await self._move_to_node(acks, properties)

    async def set_cursor_properties(
        self, acks: AckState, properties: Mapping[str, int], cursor_properties: Mapping[str, str]
    ) -> None:
        """Replaces the subscription's own properties. Raises CursorFault, ManagedLedgerFenced."""
        async with self._lock:
            before, self.cursor_properties = self.cursor_properties, dict(cursor_properties)
            try:
                if self._ledger_id == NO_LEDGER:
                    await self._move_to_node(acks, properties)
                else:
                    await self._write_node(self._ledger_id, self._stored_position, self._stored_properties, None)
            except BaseException:
                self.cursor_properties = before
                raise

    async def close(self, acks: AckState, properties: Mapping[str, int], *, changed: bool) -> None:
        """Stores the last changes where the next owner reads them most cheaply: in the node, without a cursor ledger. A
        state that belongs in a ledger (`_belongs_in_ledger`) becomes the last entry of a cursor ledger, which is then
        closed. Raises CursorFault, ManagedLedgerFenced."""
        if self._belongs_in_ledger(acks):
            if changed or self._ledger_id == NO_LEDGER:
                await self.persist(acks, properties)
            async with self._lock:
                if self._handle is not None:
                    try:
                        await self._handle.close()
                    except LedgerError as error:
                        logger.warning("%s: cursor ledger not closed: %s", self.label, error)
            return
        async with self._lock:
            if changed or self._ledger_id != NO_LEDGER:
                await self._move_to_node(acks, properties)

    async def delete(self) -> None:
        """Deletes the node and the ledger. Raises MetaStoreFault."""
        async with self._lock:
            try:
                await self._record.delete()
            except MetadataError as error:
                raise MetaStoreFault(self.label, str(error)) from error
            self._bury(self._unsure)
            await self._leave_ledger()

    # ---- inside; the lock is held

    def _is_due(self, handle: WriteHandle) -> bool:
        config = self._config
        age_s = self._clocks.monotonic_s() - self._opened_s
        return (
            self._ledger_bytes >= LEDGER_BYTES_MAX
            or handle.last_add_pushed + 1 >= config.managed_ledger_cursor_max_entries_per_ledger
            or age_s >= config.managed_ledger_cursor_rollover_time_in_seconds
        )

    async def _must_switch(self, handle: WriteHandle) -> bool:
        """Returns whether the cursor ledger must be replaced now. A ledger that is due stays in use while the metadata
        store does not answer (ManagedCursorImpl.shouldCloseLedger)."""
        return self._is_due(handle) and await self._access.answers()

    def _belongs_in_ledger(self, acks: AckState) -> bool:
        """Returns whether the next owner has to find the state in a cursor ledger: when it is too large for the node,
        or has half-acknowledged batches, which Apache's broker writes to the node but reads back only from a ledger
        (ManagedCursorImpl.recover, recoverFromLedger)."""
        return bool(acks.partial) or not self._fits_node(acks)

    def _fits_node(self, acks: AckState) -> bool:
        ranges_max = self._config.managed_ledger_max_unacked_ranges_to_persist_in_metadata_store
        return acks.number_of_ranges + len(acks.partial) <= ranges_max

    async def _switch_ledger(self, acks: AckState, properties: Mapping[str, int]) -> None:
        ensemble, write, ack = self._config.quorums
        labels = {"pulsar/cursor": self._name.encode(), **self._owner.ledger_labels()}
        handle = await self._bookkeeper.create_ledger(
            ensemble_size=ensemble, write_quorum=write, ack_quorum=ack, custom_metadata=labels
        )
        try:
            before = StoredBefore(self._stored_position, self._stored_properties, repeat=self._stored_plain)
            written = await append_state(handle, acks, properties, before, self._config)
            await self._write_node(handle.ledger_id, self._stored_position, self._stored_properties, None)
        except (LedgerError, ManagedLedgerFenced):
            await handle.abandon()
            self._bury([handle.ledger_id])
            raise
        except BaseException:
            # The node may name this ledger now, so the ledger stays until a later write of the node settles that.
            await handle.abandon()
            self._unsure.append(handle.ledger_id)
            raise
        await self._leave_ledger()
        self._handle, self._ledger_id = handle, handle.ledger_id
        self._opened_s = self._clocks.monotonic_s()
        self.ledger_switched_ms = self._clocks.wall_ms()
        self._ledger_bytes = written.size
        self._note_stored(written.position, written.plain, written.properties)
        logger.info("%s: stored in cursor ledger %d", self.label, handle.ledger_id)

    async def _move_to_node(self, acks: AckState, properties: Mapping[str, int]) -> None:
        position, plain, written = acks.mark_delete, acks.is_plain, dict(properties)
        await self._write_node(NO_LEDGER, position, written, acks)
        await self._leave_ledger()
        self._note_stored(position, plain, written)

    def _note_stored(self, position: Position, plain: bool, properties: Mapping[str, int]) -> None:
        """Remembers the stored state, which later writes of the node and the first entry of the next ledger repeat."""
        self._stored_position, self._stored_plain = position, plain
        self._stored_properties = properties or NO_PROPERTIES

    async def _write_node(
        self, ledger_id: int, position: Position, properties: Mapping[str, int], acks: AckState | None
    ) -> None:
        value = encode_node(
            ledger_id,
            position,
            properties,
            self.cursor_properties,
            last_active_ms=self.last_active_ms,
            extra=self._extra,
            acks=acks,
        )
        try:
            await self._record.write(value)
        except SupersededError as error:
            raise ManagedLedgerFenced(self.label, f"another owner wrote the cursor: {error}") from error
        except MetadataError as error:
            raise CursorFault(self.label, f"{type(error).__name__}: {error}") from error
        unsure, self._unsure = self._unsure, []
        self._bury(unsure)

    async def _leave_ledger(self) -> None:
        """Deletes the cursor ledger, which the node does not name any more."""
        handle, self._handle = self._handle, None
        ledger_id, self._ledger_id = self._ledger_id, NO_LEDGER
        if handle is not None:
            await handle.abandon()
        if ledger_id != NO_LEDGER:
            self._bury([ledger_id])

    def _bury(self, ledger_ids: Sequence[int]) -> None:
        self._owner.bury(ledger_ids, f"cursor {self._name}")
