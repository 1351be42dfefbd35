"""A cache of the handles of closed ledgers, which are opened once. The least recently used handles leave first."""

import asyncio

from cachetools import LRUCache

from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.read_handle import ReadHandle

HANDLES_MAX = 1_000
"""How many handles are kept. Each holds its ledger's metadata, some hundred bytes. Opening a dropped handle again costs
one read from the metadata store."""


class ReadHandles:
    """The cache of handles. One object serves the process."""

    def __init__(self, bookkeeper: BookKeeper, handles_max: int = HANDLES_MAX) -> None:
        self._bookkeeper = bookkeeper
        self._handles: LRUCache[int, asyncio.Task[ReadHandle]] = LRUCache(handles_max)

    def __len__(self) -> int:
        return len(self._handles)

    async def get(self, ledger_id: int) -> ReadHandle:
        """Returns the handle of a ledger that the list says is closed. Raises LedgerError."""
        opening = self._handles.get(ledger_id)
        if opening is None:
            opening = self._handles[ledger_id] = asyncio.get_running_loop().create_task(self._open(ledger_id))
        elif opening.done() and not opening.cancelled() and opening.exception() is None:
            return opening.result()
        try:
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._handles.get(ledger_id) is opening:
                del self._handles[ledger_id]
            raise

    def drop(self, ledger_id: int) -> None:
        """Forgets a handle whose ledger was deleted, or which failed and has to be opened again."""
        self._handles.pop(ledger_id, None)

    async def _open(self, ledger_id: int) -> ReadHandle:
        handle = await self._bookkeeper.open_ledger(ledger_id, recover=False)
        if not handle.is_closed:
            # The former owner wrote the list without having closed the ledger, as Apache's broker does when closing
            # fails.
            handle = await self._bookkeeper.open_ledger(ledger_id, recover=True)
        return handle
