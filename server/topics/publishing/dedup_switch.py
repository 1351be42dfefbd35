"""Turns a topic's deduplication on and off, as its policy says, while the topic lives.

Turning it on means a cursor and a look through the log, turning it off means to delete the cursor: both take a while
and may fail, so one task at a time works until what is equals what is wanted; upkeep starts it again after a failure.

While it is turned on, messages are on their way to the log that nobody has counted. So the table is filled in two
steps: what is sent from now on is judged and counted at once; what was on its way before is waited for, and read back
from the log with the rest. Producers that come meanwhile are asked to come again.

Source: MessageDeduplication.checkStatus.
"""

import asyncio
import logging
import time

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.topics.publishing.deduplication import Deduplication
from magnetar.server.topics.publishing.topic_producers import TopicProducers
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError

log = logging.getLogger(__name__)


class DedupSwitch:
    """`wanted`: what the policy says."""

    def __init__(
        self, topic_name: str, ledger: ManagedLedger, settings: TopicSettings, publishing: TopicProducers
    ) -> None:
        self.wanted = False
        self._topic_name = topic_name
        self._ledger = ledger
        self._settings = settings
        self._publishing = publishing
        self._working: asyncio.Task[None] | None = None

    @property
    def status(self) -> str:
        """As stats name it (MessageDeduplication.Status)."""
        dedup = self._publishing.dedup
        if dedup is None or not dedup.is_complete:
            return "Recovering" if self.wanted else "Disabled"
        return "Enabled" if self.wanted else "Removing"

    async def begin(self, wanted: bool) -> None:
        """Before the first producer comes. Raises ManagedLedgerError: what was stored before cannot be told."""
        self.wanted = wanted
        if wanted:
            await self._turn_on()
        else:
            self.follow(False)

    def follow(self, wanted: bool) -> None:
        """The policy says this now. Does nothing where it is so."""
        self.wanted = wanted
        if self._working is None and not self._is_done:
            self._working = asyncio.get_running_loop().create_task(self._work())

    def tick(self, now_s: float, snapshot_interval_seconds: int) -> None:
        """Upkeep: snapshots, producers that left long ago, what failed before."""
        self.follow(self.wanted)
        if self._publishing.dedup is not None:
            self._publishing.dedup.tick(now_s, snapshot_interval_seconds)

    def close(self) -> None:
        """The topic closes: what is known goes into the cursor, which the managed ledger stores."""
        if self._working is not None:
            self._working.cancel()
        if self._publishing.dedup is not None:
            self._publishing.dedup.take_snapshot()

    @property
    def _is_done(self) -> bool:
        if self.wanted:
            return self._publishing.dedup is not None
        return self._publishing.dedup is None and not Deduplication.is_stored(self._ledger)

    async def _work(self) -> None:
        try:
            while not self._is_done:
                if self.wanted:
                    await self._turn_on()
                else:
                    given_up = self._publishing.dedup
                    self._publishing.check(None, self._publishing.checks)
                    if given_up is not None:
                        given_up.let_go()
                    await Deduplication.remove(self._ledger)
                log.info("%s: deduplication is %s", self._topic_name, "on" if self.wanted else "off")
        except ManagedLedgerError as error:
            log.warning("%s: deduplication not turned %s: %s", self._topic_name, "on" if self.wanted else "off", error)
        finally:
            self._working = None

    async def _turn_on(self) -> None:
        publishing = self._publishing
        dedup = await Deduplication.open(self._topic_name, self._ledger, self._settings, time.monotonic())
        publishing.check(dedup, publishing.checks)
        try:
            await publishing.answered_so_far()
            await dedup.replay(time.monotonic())
        except BaseException:
            publishing.check(None, publishing.checks)
            raise
        publishing.check(dedup, publishing.checks)  # replay took connected producers for gone
