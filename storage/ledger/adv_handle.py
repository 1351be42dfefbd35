"""A ledger whose writer chooses the entry ids, and may add them in any order (LedgerHandleAdv of Apache's client).

An entry waits here until all entries before it have been added; then the waiting entries are sent to the bookies in
order, as one group. A caller sees no difference from Java's handle, which sends each entry at once: no entry is
confirmed before all lower ids are, and the ledger ends before the first gap.
"""

import asyncio

from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.ledger_errors import DuplicateEntryId, IncorrectParameter, LedgerClosed, LedgerError
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.read_handle import READ_BYTES_MAX
from pulsar_proto.records.ledger_record import LedgerMetadata


class WriteAdvHandle:
    """The handle that `create_ledger_adv` returns. Entries behind a gap stay in memory until the gap is filled, so the
    caller has to limit how many it adds."""

    def __init__(self, handle: WriteHandle) -> None:
        self._handle = handle
        self._waiting: dict[int, tuple[bytes, asyncio.Future[int]]] = {}
        self.ledger_id = handle.ledger_id
        self.payload_offset = handle.payload_offset

    @property
    def last_add_confirmed(self) -> int:
        return self._handle.last_add_confirmed

    @property
    def metadata(self) -> LedgerMetadata:
        return self._handle.metadata

    @property
    def is_open(self) -> bool:
        return self._handle.is_open

    async def add(self, entry_id: int, payload: bytes) -> int:
        """Adds one entry, and returns its id once this entry and all before it are confirmed.

        Raises DuplicateEntryId when the id was used before, IncorrectParameter for a negative id, LedgerClosed when the
        handle has ended already, and the LedgerError that ends the handle while the entry waits or is on its way.
        """
        if entry_id < 0:
            raise IncorrectParameter(f"ledger {self.ledger_id}: entry id {entry_id}")
        if entry_id in self._waiting or entry_id <= self._handle.last_add_pushed:
            raise DuplicateEntryId(f"ledger {self.ledger_id}: entry {entry_id} was added before")
        if not self.is_open:
            raise LedgerClosed(f"ledger {self.ledger_id} is closed")
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[entry_id] = payload, outcome
        self._send_run()
        return await outcome

    async def read(self, first: int, last: int, max_bytes: int = READ_BYTES_MAX) -> list[bytes]:
        """Returns confirmed entries from `first` on without a gap. Limits and errors are those of `ReadHandle.read`."""
        return await self._handle.read(first, last, max_bytes)

    async def close(self) -> None:
        """Ends the writer and closes the ledger at its LAC. Entries that wait behind a gap fail with LedgerClosed.
        Raises the errors of `WriteHandle.close`."""
        self._fail_waiting(LedgerClosed(f"ledger {self.ledger_id} was closed before a gap was filled"))
        await self._handle.close()

    def _fail_waiting(self, error: LedgerError) -> None:
        waiting, self._waiting = self._waiting, {}
        for _, outcome in waiting.values():
            _fail(outcome, error)

    def _send_run(self) -> None:
        first = self._handle.last_add_pushed + 1
        run: list[tuple[bytes, asyncio.Future[int]]] = []
        while (waiting := self._waiting.pop(first + len(run), None)) is not None:
            run.append(waiting)
        if not run:
            return

        def done(append: Append) -> None:
            for entry_id, (_, outcome) in enumerate(run, first):
                if append.error is not None:
                    _fail(outcome, append.error)
                elif not outcome.cancelled():
                    outcome.set_result(entry_id)
            if append.error is not None:
                self._fail_waiting(append.error)  # The handle has ended, so no gap will be filled any more.

        self._handle.append([payload for payload, _ in run], done)


def _fail(outcome: asyncio.Future[int], error: LedgerError) -> None:
    """Fails one waiting task with a copy of `error`, because one error may fail many tasks and each has to raise an
    exception of its own."""
    if not outcome.done():
        outcome.set_exception(type(error)(str(error)))
