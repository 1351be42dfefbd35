"""Helpers for tests of the channel over TCP: both protocols, entries, and adds whose outcome is kept."""

from collections.abc import Sequence

import pytest

from magnetar.storage.ledger.wire_channel import WireChannel
from magnetar.storage.ledger.wire_config import WireConfig
from pulsar_proto.records.entry_digest import DigestType, EntryCodec, master_key
from tests.waiting import until

KEY = master_key(b"secret")
LOST = -8
"""The code that an add gets when its connection ended before the answer."""

V2 = WireConfig()
V3 = WireConfig(use_v2_wire_protocol=False)
BOTH = pytest.mark.parametrize("config", [V2, V3], ids=["v2", "v3"])


def entries_of(ledger_id: int, ids: Sequence[int], size: int = 10) -> list[bytes]:
    codec = EntryCodec(ledger_id, DigestType.CRC32C, b"secret")
    return [codec.pack_run(entry_id, entry_id - 1, 0, [bytes(size)])[0] for entry_id in ids]


class Adds:
    """Adds entries to a channel and keeps what became of them."""

    def __init__(self, channel: WireChannel) -> None:
        self._channel = channel
        self.calls: list[tuple[list[int], int]] = []

    def add(self, ledger_id: int, ids: Sequence[int], flags: int = 0, key: bytes = KEY, size: int = 10) -> None:
        before = len(self.calls)
        self._channel.add_entries(ledger_id, key, ids, entries_of(ledger_id, ids, size), flags, self._done)
        assert len(self.calls) == before, "told from inside add_entries"

    def _done(self, ids: Sequence[int], rc: int) -> None:
        self.calls.append((list(ids), rc))

    async def told(self, calls: int) -> list[tuple[list[int], int]]:
        await until(lambda: len(self.calls) >= calls)
        return self.calls
