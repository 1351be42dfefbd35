"""A bookie's channel on which writes fail or come late, and which may be cut off from the bookie."""

import asyncio
from collections.abc import Sequence
from functools import partial

from magnetar.server.faults.fault_rules import Effect, FaultSet, Target
from magnetar.server.faults.partition import Partition
from magnetar.storage.ledger.bookie_channel import AddDone, BookieChannel
from pulsar_proto.wire.bookie_wire import BookieRc


class FaultyChannel:
    """Passes everything on to the bookie, except for what the faults strike. Implements `BookieChannel`."""

    def __init__(self, bookie: BookieChannel, faults: FaultSet, partition: Partition) -> None:
        self._bookie = bookie
        self._faults = faults
        self._partition = partition

    def add_entries(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        add = partial(self._bookie.add_entries, ledger_id, master_key, entry_ids, entries, flags, done)
        struck = self._faults.strike(Target.LEDGER_WRITE)
        if struck is None:
            self._partition.pass_on(add)
        elif struck.effect is Effect.FAIL:
            asyncio.get_running_loop().call_soon(done, entry_ids, BookieRc.EIO)
        else:
            asyncio.get_running_loop().call_later(struck.delay_ms / 1000, self._partition.pass_on, add)

    async def read_entry(self, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
        await self._partition.reached()
        return await self._bookie.read_entry(ledger_id, entry_id, flags, master_key)

    async def read_entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        await self._partition.reached()
        return await self._bookie.read_entries(ledger_id, first_entry_id, max_entries, max_bytes)
