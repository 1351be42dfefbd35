"""Puts off the work that can wait while the metadata store is away: leaving a full ledger, deleting ledgers, and
changing a cursor's ledger. A managed ledger that begins such work while the store is silent cannot finish it, and the
topic's publishers have to wait, although the full ledger would take further entries.

A store that fell silent is noticed late, by its time-outs. So the store is asked each time before such work begins; the
answer takes milliseconds. Source: ManagedLedgerFactoryImpl.isMetadataServiceAvailable, which depends on
ZKSessionWatcher's questions every 2 s.
"""

import asyncio
import logging
from collections.abc import Callable

from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import MetadataStore

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 1.0
"""The store counts as away when it has not answered a question for this long."""

RETRY_SECONDS = 1.0
"""For how long the store is not asked again after it has not answered."""


class MetadataAccess:
    """Knows whether the metadata store answers. One object serves the process; it is used on the loop's thread only."""

    def __init__(
        self,
        store: MetadataStore,
        monotonic_s: Callable[[], float],
        bookies_suffice: Callable[[], bool] = lambda: True,
    ) -> None:
        """`bookies_suffice` says whether enough bookies are registered for a new ledger. Sessions that expired while
        the store stood still take the registrations along, and for a moment after its return no ledger can be made."""
        self._store = store
        self._bookies_suffice = bookies_suffice
        self._monotonic_s = monotonic_s
        self._asking: asyncio.Task[bool] | None = None
        self._silent_until_s = 0.0
        self._is_away = False

    def may_ask(self) -> bool:
        """Returns whether a question to the store is worth while: the store answers its session, and has not just
        failed to answer a question."""
        if not self._store.is_answering:
            self._note_away("its session gets no answers")
            return False
        return self._monotonic_s() >= self._silent_until_s

    @property
    def is_certain(self) -> bool:
        """Whether the store is a part of this process. Such a store always answers and need not be asked."""
        return not self._store.is_remote

    @property
    def is_away(self) -> bool:
        """Whether the store is known not to answer."""
        return not self.is_certain and not self._store.is_answering

    async def answers(self) -> bool:
        """Returns whether the store answers now, and enough bookies are registered with it. Several callers share one
        question."""
        if self.is_certain:
            return True
        if self._asking is None:
            if not self.may_ask():
                return False
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._store.exists("/")
        except (MetadataError, TimeoutError) as error:
            self._ask_later()
            self._note_away(repr(error))
            return False
        else:
            if self._is_away:
                # Bookies whose sessions expired register again first, so ledgers are kept for a moment more.
                logger.info("the metadata store answers again")
                self._is_away = False
                self._ask_later()
                return False
            return self._has_bookies()
        finally:
            self._asking = None

    def _has_bookies(self) -> bool:
        if self._bookies_suffice():
            return True
        self._ask_later()
        logger.warning("too few bookies are registered for a new ledger, so ledgers are kept as they are")
        return False

    def _note_away(self, why: str) -> None:
        if not self._is_away:
            logger.warning("the metadata store is away, so ledgers are kept as they are: %s", why)
        self._is_away = True

    def _ask_later(self) -> None:
        self._silent_until_s = self._monotonic_s() + RETRY_SECONDS


class LedgerGate:
    """Says when a managed ledger may leave its ledger. `leave(ledger_id)` is called once the store answers; the ledger
    may have been left for another reason meanwhile."""

    __slots__ = ("_access", "_asking", "_leave")

    def __init__(self, access: MetadataAccess, leave: Callable[[int], None]) -> None:
        self._access = access
        self._leave = leave
        self._asking: asyncio.Task[None] | None = None

    def want_to_leave(self, ledger_id: int) -> None:
        """Called for each group that finds the ledger full. While the store is away, the ledger grows beyond its
        limits, and the store is asked again from time to time."""
        if self._access.is_certain:
            self._leave(ledger_id)
        elif self._asking is None and self._access.may_ask():
            self._asking = asyncio.get_running_loop().create_task(self._ask(ledger_id))

    async def _ask(self, ledger_id: int) -> None:
        try:
            if await self._access.answers():
                self._leave(ledger_id)
        finally:
            self._asking = None
