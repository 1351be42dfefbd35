"""Follows a ledger that somebody else is writing, as it grows.

No entry beyond the LAC that the bookies know is ever read, so no recovery can remove an entry that was returned. The
writer's LAC is sent inside the next entry or, if the writer has an explicit LAC interval, separately. Until then
neither the bookies nor this reader know that the last entries are confirmed (docs/LEDGERS.md, "The last add
confirmed").

Source: ReadLastConfirmedAndEntryOp, LedgerHandle.asyncReadLastConfirmed.
"""

import asyncio
from collections.abc import AsyncIterator

from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.fragment_rules import last_fragment
from magnetar.storage.ledger.last_confirmed import ask_last_confirmed
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver
from magnetar.storage.ledger.quorum_rules import write_set
from magnetar.storage.ledger.read_handle import READ_BYTES_MAX, ReadHandle
from magnetar.storage.ledger.recovery_rules import LastConfirmed
from magnetar.storage.ledger.replica_reader import ReplicaReader
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState

POLL_SECONDS = 10.0
"""The longest wait at one bookie. After that time the ledger's record is read again, and the next bookie is asked."""
RETRY_SECONDS = 0.2
"""The pause between questions to bookies that cannot wait for an entry, or that failed."""
TAIL_ENTRIES_MAX = 1000


class TailHandle(ReadHandle):
    """A read handle whose `last_add_confirmed`, `length` and `metadata` move on with `refresh` and `wait`. Only one
    task may use it at a time."""

    __slots__ = ("_driver", "_poll_seconds")

    def __init__(
        self,
        metadata: LedgerMetadata,
        confirmed: LastConfirmed,
        reader: ReplicaReader,
        payload_offset: int,
        driver: LedgerMetadataDriver,
        config: LedgerConfig,
    ) -> None:
        super().__init__(metadata, confirmed.entry_id, confirmed.length, reader, payload_offset)
        self._driver = driver
        self._poll_seconds = min(POLL_SECONDS, config.read_entry_timeout_sec)

    async def refresh(self) -> int:
        """Reads the record, asks the bookies, and returns the LAC, which never goes back.

        Raises NoSuchLedger when the ledger was deleted, LedgerMetadataFault, and the errors of the bookies when too few
        answered.
        """
        await self._look_at_record()
        if not self.is_closed:
            self._advance(*await ask_last_confirmed(self._reader, self.metadata))
        return self.last_add_confirmed

    async def wait(self, timeout: float) -> bool:
        """Returns True as soon as `last_add_confirmed` has grown. Returns False when the ledger is closed, so that all
        of it can be read, or after `timeout` seconds. Raises the errors of `refresh`."""
        loop = asyncio.get_running_loop()
        before, deadline = self.last_add_confirmed, loop.time() + timeout
        changed = asyncio.Event()
        cancel = self._driver.watch(self.ledger_id, changed.set)
        record = asyncio.ensure_future(changed.wait())
        replica = 0
        try:
            await self.refresh()
            while self.last_add_confirmed == before and not self.is_closed:
                left = deadline - loop.time()
                if left <= 0:
                    return False
                poll = asyncio.create_task(self._poll(replica, min(left, self._poll_seconds)))
                try:
                    await asyncio.wait([poll, record], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    poll.cancel()
                    await asyncio.gather(poll, return_exceptions=True)
                replica += 1
                if record.done():
                    changed.clear()
                    record = asyncio.ensure_future(changed.wait())
                    await self.refresh()
                elif self.last_add_confirmed == before:
                    await self._look_at_record()
            return self.last_add_confirmed > before
        finally:
            record.cancel()
            cancel()

    async def tail(self, first: int = 0) -> AsyncIterator[bytes]:
        """Yields stored entries from `first` on, each as soon as it is known to be confirmed, until the ledger is
        closed.

        Raises the errors of `read` and `refresh`.
        """
        while True:
            while first <= self.last_add_confirmed:
                last = min(self.last_add_confirmed, first + TAIL_ENTRIES_MAX - 1)
                for entry in await self.read(first, last, READ_BYTES_MAX):
                    first += 1
                    yield entry
            if self.is_closed:
                return
            await self.wait(self._poll_seconds)

    async def _look_at_record(self) -> None:
        self.metadata = (await self._driver.read(self.ledger_id)).metadata
        if self.metadata.state is LedgerState.CLOSED:
            self._advance(self.metadata.last_entry_id, self.metadata.length)

    async def _poll(self, replica: int, seconds: float) -> None:
        """Asks one of the bookies that will store the next entry. Returns when this bookie's LAC has reached the entry,
        or after `seconds`."""
        metadata = self.metadata
        members = last_fragment(metadata).members
        holders = write_set(self.last_add_confirmed + 1, metadata.ensemble_size, metadata.write_quorum)
        try:
            lac = await self._reader.poll(members[holders[replica % len(holders)]], self.last_add_confirmed, seconds)
        except LedgerError:
            await asyncio.sleep(min(seconds, RETRY_SECONDS))
            return
        if lac is None:
            await asyncio.sleep(min(seconds, RETRY_SECONDS))
            self._advance(*await ask_last_confirmed(self._reader, metadata))
        else:
            self._advance(lac, self.length)

    def _advance(self, lac: int, length: int) -> None:
        if lac > self.last_add_confirmed:
            self.last_add_confirmed = lac
        self.length = max(self.length, length)
