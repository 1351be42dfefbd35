"""Gives stored entries to one bookie, as BookKeeper's recovery does: by RECOVERY_ADD, which a bookie also takes for a
fenced ledger."""

import asyncio
from collections.abc import Sequence

from magnetar.storage.ledger.bookie_channel import BookieChannel
from magnetar.storage.ledger.ledger_errors import BookieTimeout, error_class
from pulsar_proto.wire.bookie_wire import AddFlags

_RECOVERY_ADD = int(AddFlags.RECOVERY_ADD)


async def recovery_add(
    channel: BookieChannel,
    bookie: str,
    ledger_id: int,
    master_key: bytes,
    ids: Sequence[int],
    entries: Sequence[bytes],
    timeout_sec: float,
) -> None:
    """Returns when all entries are durable on the bookie. An entry is stored with the bytes that are given: header,
    digest and payload. Raises BookieTimeout, and the LedgerError of the bookie's return code."""
    left = len(ids)
    outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def done(some: Sequence[int], rc: int) -> None:
        nonlocal left
        left -= len(some)
        if (rc or not left) and not outcome.done():
            outcome.set_result(rc)

    channel.add_entries(ledger_id, master_key, ids, entries, _RECOVERY_ADD, done)
    try:
        async with asyncio.timeout(timeout_sec):
            rc = await outcome
    except TimeoutError:
        raise BookieTimeout(f"ledger {ledger_id}: bookie {bookie} did not take copies in time") from None
    if rc:
        raise error_class(rc, reading=False)(f"ledger {ledger_id}: bookie {bookie} did not take copies: {rc}")
