"""Turns a topic's deduplication on and off while the topic is in use, as its policy says.

To turn deduplication on, the switch opens a cursor and reads a part of the log; to turn deduplication off, the switch
deletes the cursor. Both steps take time and may fail. Therefore one task at a time works until deduplication is as the
policy wants it. After a failure the periodic `tick` starts that task again.

When deduplication is turned on, some messages are already on their way to the log, and their sequence ids were not
noted. So the table of sequence ids is filled in two steps. Messages that are sent from now on are judged and counted at
once. The switch then waits until all earlier messages are answered, and reads them back from the log, together with all
older messages after the snapshot. Producers that connect while the switch works are told to try again.

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
    """Turns the deduplication of one topic on and off. `wanted` is the state that the policy asks for."""

    __slots__ = ("_ledger", "_publishing", "_settings", "_topic_name", "_working", "wanted")

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
        """The status of deduplication by its name in the topic's stats (MessageDeduplication.Status)."""
        dedup = self._publishing.dedup
        if dedup is None or not dedup.is_complete:
            return "Recovering" if self.wanted else "Disabled"
        return "Enabled" if self.wanted else "Removing"

    async def begin(self, wanted: bool) -> None:
        """Brings deduplication to the state `wanted`. Called once, before the first producer connects. Raises
        ManagedLedgerError when the log cannot be read; the topic is then not opened, because the broker could not
        recognise duplicates of stored messages."""
        self.wanted = wanted
        if wanted:
            await self._turn_on()
        else:
            self.follow(False)

    def follow(self, wanted: bool) -> None:
        """Called when the policy may have changed. Begins to turn deduplication on or off, unless deduplication is in
        the state `wanted` already."""
        self.wanted = wanted
        if self._working is None and not self._is_done:
            self._working = asyncio.get_running_loop().create_task(self._work())

    def tick(self, now_s: float, snapshot_interval_seconds: int) -> None:
        """Called by the periodic job: retries a failed change, takes a snapshot that is due, and forgets producers that
        left long ago."""
        self.follow(self.wanted)
        if self._publishing.dedup is not None:
            self._publishing.dedup.tick(now_s, snapshot_interval_seconds)

    def close(self) -> None:
        """Called when the topic closes. Puts a snapshot into the cursor. The managed ledger stores the cursor when it
        closes."""
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
        # After the replay all names count as having left; `check` marks the names of connected producers as present.
        publishing.check(dedup, publishing.checks)
