"""Finds the channel to a bookie. A bookie without a known address gets a channel on which every request fails."""

import asyncio
from collections.abc import Callable, Sequence

from magnetar.storage.ledger.bookie_channel import AddDone, BookieChannel
from magnetar.storage.ledger.ledger_errors import BookieHandleNotAvailable

ChannelOf = Callable[[str], BookieChannel]
"""Maps a bookie id to its channel. Raises LookupError for a bookie whose address nobody knows."""


class UnreachableBookie:
    """Stands in for a bookie without an address: every request fails with the error of a lost connection."""

    def __init__(self, bookie_id: str) -> None:
        self._bookie_id = bookie_id

    def add_entries(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        asyncio.get_running_loop().call_soon(done, entry_ids, BookieHandleNotAvailable.code)

    async def read_entry(self, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
        raise ConnectionError(f"no address of bookie {self._bookie_id}")

    async def read_entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        raise ConnectionError(f"no address of bookie {self._bookie_id}")


def find_channel(channel_of: ChannelOf, bookie_id: str) -> BookieChannel:
    """Returns the bookie's channel, or an `UnreachableBookie` when its address is unknown."""
    try:
        return channel_of(bookie_id)
    except LookupError:
        return UnreachableBookie(bookie_id)
