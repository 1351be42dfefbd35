"""A bookie's channel on which writes fail or come late."""

import asyncio
from collections.abc import Sequence
from functools import partial

from magnetar.server.faults.fault_rules import Effect, FaultSet, Target
from magnetar.storage.ledger.bookie_channel import AddDone, BookieChannel
from pulsar_proto.wire.bookie_wire import BookieRc


class FaultyChannel:
    """Passes everything on to the bookie, except for what the faults strike. Implements `BookieChannel`."""

    def __init__(self, bookie: BookieChannel, faults: FaultSet) -> None:
        self._bookie = bookie
        self._faults = faults
        self.read_entry = bookie.read_entry
        self.read_entries = bookie.read_entries

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
            add()
        elif struck.effect is Effect.FAIL:
            asyncio.get_running_loop().call_soon(done, entry_ids, BookieRc.EIO)
        else:
            asyncio.get_running_loop().call_later(struck.delay_ms / 1000, add)
