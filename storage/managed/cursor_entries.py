"""Writes the state of a cursor to its ledger and reads it back, as one entry or as several (`cursor_parts`).

A large state is written in slices: one slice is encoded on another thread and appended, then the next. So the loop is
not held up, and the whole state is never in memory twice.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.ledger_errors import DigestMismatch, LedgerError, NoSuchEntry
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.read_handle import ReadHandle
from magnetar.storage.managed.ack_state import AckState, Extents
from magnetar.storage.managed.cursor_parts import (
    INLINE_BYTES,
    PARTS_MAX,
    RECORD_BYTES_MAX,
    bitmap_bytes,
    encode_part,
    merged,
    parse_part,
    slices,
)
from magnetar.storage.managed.cursor_record import (
    StoredAcks,
    encode_head,
    encode_middle,
    encode_parts_before,
    encode_position,
    encode_words,
    parse_position,
)
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import CursorFault
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position

logger = logging.getLogger(__name__)

UNREADABLE_ENTRIES_MAX = 10
"""How many damaged entries at the end of a cursor ledger are passed over before the position in the node is used
instead."""

offload: Callable[..., Any] = asyncio.to_thread
"""Runs the encoding of large states on another thread. Tests replace it."""


class WrittenState(NamedTuple):
    """Describes the state that was appended."""

    position: Position
    plain: bool
    """Whether the state is the position alone: neither entries beyond it nor half-acknowledged batches were written."""
    properties: Mapping[str, int]
    """The properties that were written with the position."""
    size: int
    """Bytes of all entries that were written."""


class StoredBefore(NamedTuple):
    """The state that was stored last. If it was stored without ranges and batches, it becomes the first entry of a new
    ledger. When the next state is stored in parts, each part carries this `position`, because after a crash a part may
    be the ledger's last entry."""

    position: Position
    properties: Mapping[str, int]
    repeat: bool
    """Whether this state is to be written as the first entry of a new ledger."""


def fits_one_entry(acks: AckState) -> bool:
    """Whether `append_state` writes this state as one entry, which is encoded on the event loop's thread."""
    return acks.is_plain or bitmap_bytes(acks) <= INLINE_BYTES


async def append_state(
    handle: WriteHandle,
    acks: AckState,
    properties: Mapping[str, int],
    before: StoredBefore,
    config: ManagedLedgerConfig,
) -> WrittenState:
    """Appends the state in `acks` and `properties`, as it is now or a little later. Raises LedgerError.

    A large state goes on changing while its slices are written; `cursor_parts` says why that does no harm. If the
    cursor was reset meanwhile, the slices do not belong together, and the whole state is written anew.
    """
    if fits_one_entry(acks):
        position, plain, written = acks.mark_delete, acks.is_plain, dict(properties)
        entries = [encode_position(acks, position, properties, config)]
        if before.repeat:
            entries.insert(0, encode_position(acks, before.position, before.properties, config))
        await append(handle, entries)
        return WrittenState(position, plain, written, sum(map(len, entries)))
    size = 0
    if before.repeat:
        first = encode_head(before.position) + encode_middle(None, before.properties, config)
        await append(handle, [first])
        size = len(first)
    while True:
        resets = acks.resets
        words: list[bytes] = []
        room = RECORD_BYTES_MAX
        parts = 0
        for piece in slices(acks):
            if room > 0:
                encoded: bytes = await offload(encode_words, piece)
                room -= len(encoded)
                if room > 0:
                    words.append(encoded)
                    continue
            entries = await offload(encode_part, piece, before.position)
            await append(handle, entries)
            parts += len(entries)
            size += sum(map(len, entries))
        if acks.resets == resets:
            break
    position, plain, written = acks.mark_delete, acks.is_plain, dict(properties)
    record = b"".join((encode_head(position), encode_middle(acks, properties, config), *words))
    if parts:
        record += encode_parts_before(min(parts, PARTS_MAX))
    await append(handle, [record])
    return WrittenState(position, plain, written, size + len(record))


async def read_state(label: str, handle: ReadHandle, extents: Extents) -> StoredAcks | None:
    """Returns the last appended state that can be read, or None when the ledger has none or ends with
    UNREADABLE_ENTRIES_MAX damaged entries. Raises CursorFault when an entry cannot be read now."""
    unreadable = 0
    entry_id = handle.last_add_confirmed
    while entry_id >= 0 and unreadable < UNREADABLE_ENTRIES_MAX:
        acks = await _read_entry(label, handle, entry_id, extents)
        if acks is None:
            unreadable += 1
        elif not acks.part:
            return await _with_parts(label, handle, entry_id, acks, extents)
        entry_id -= 1
    return None


async def _with_parts(label: str, handle: ReadHandle, entry_id: int, acks: StoredAcks, extents: Extents) -> StoredAcks:
    """Adds the acknowledgements in the parts before the entry. A part that cannot be read is left out, and the entries
    that it acknowledged are delivered again."""
    if not acks.parts_before:
        return acks
    states = [dict(acks.acked)]
    for part_id in range(max(0, entry_id - min(acks.parts_before, PARTS_MAX)), entry_id):
        entry = await _read_entry(label, handle, part_id, extents)
        try:
            if entry is None or not entry.part:
                raise MalformedRecord("no part")
            states.append(await offload(parse_part, entry.part))
        except MalformedRecord as error:
            logger.warning("%s: part %d of cursor ledger %d: %s", label, part_id, handle.ledger_id, error)
    return replace(acks, acked=merged(states))


async def _read_entry(label: str, handle: ReadHandle, entry_id: int, extents: Extents) -> StoredAcks | None:
    """Returns the content of the entry, or None when the entry is missing or damaged. Raises CursorFault when it cannot
    be read now."""
    try:
        (entry,) = await handle.read(entry_id, entry_id)
        return parse_position(entry[handle.payload_offset :], extents)
    except (NoSuchEntry, DigestMismatch, MalformedRecord) as error:
        logger.warning("%s: entry %d of cursor ledger %d: %s", label, entry_id, handle.ledger_id, error)
        return None
    except LedgerError as error:
        raise CursorFault(label, f"cursor ledger {handle.ledger_id} cannot be read: {error}") from error


async def append(handle: WriteHandle, payloads: list[bytes]) -> None:
    """Appends the payloads and returns when they are confirmed. Raises LedgerError."""
    confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(append: Append) -> None:
        if confirmed.cancelled():
            return
        if append.error is None:
            confirmed.set_result(None)
        else:
            confirmed.set_exception(append.error)

    handle.append(payloads, done)
    await confirmed
