"""The shell of `append_rules.AppendMachine`, which does the I/O: sends groups to bookies, changes ensembles, keeps the
deadline.

Both a ledger's writer and recovery use this module; they differ in where they record a changed ensemble
(`EnsembleKeeper`). An `EnsembleWriter` decides nothing by itself. It has one timer, which runs while an answer is
awaited, and one task for each ensemble change.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from magnetar.storage.ledger.append_group_rules import Append, Send
from magnetar.storage.ledger.append_rules import ANSWER_TICKS, CHANGING, ENDED, AppendMachine
from magnetar.storage.ledger.appends_under_way import AppendsUnderWay
from magnetar.storage.ledger.bookie_channel import BookieChannel
from magnetar.storage.ledger.bookie_preference import NO_PREFERENCE, BookiePreference
from magnetar.storage.ledger.channel_lookup import ChannelOf, find_channel
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_errors import LedgerError, WriteFault
from magnetar.storage.ledger.overload_rules import retry_seconds

logger = logging.getLogger(__name__)


class EnsembleKeeper(Protocol):
    """Records which bookies a ledger is written to."""

    async def replace(self, failed: Mapping[int, str], first_entry_id: int) -> Sequence[str]:
        """Replaces the failed members (index -> bookie) for the entries from `first_entry_id` on, records that, and
        returns all members. Raises LedgerError; NotEnoughBookies when no failed member could be replaced."""


class EnsembleWriter:
    """Sends the entries of one ledger to its current ensemble.

    `flags` are sent with every add. `on_end(error)` is called once, on the loop, when the writer ends by itself or by
    `end`, after the callbacks of the appends that fail.
    """

    __slots__ = (
        "_appends",
        "_change",
        "_channel_of",
        "_channels",
        "_flags",
        "_keeper",
        "_ledger_id",
        "_loop",
        "_master_key",
        "_on_end",
        "_period",
        "_preference",
        "_timer",
        "machine",
    )

    def __init__(
        self,
        ledger_id: int,
        master_key: bytes,
        ensemble: Sequence[str],
        quorums: tuple[int, int],
        *,
        channel_of: ChannelOf,
        keeper: EnsembleKeeper,
        config: LedgerConfig,
        flags: int = 0,
        last_add_confirmed: int = -1,
        preference: BookiePreference = NO_PREFERENCE,
        appends: AppendsUnderWay | None = None,
        on_end: Callable[[LedgerError], None] = lambda error: None,
    ) -> None:
        """`quorums` is (write quorum, ack quorum). `appends` counts the groups of this writer, too."""
        self._loop = asyncio.get_running_loop()
        self._ledger_id = ledger_id
        self._master_key = master_key
        self._channel_of = channel_of
        self._keeper = keeper
        self._flags = flags
        self._preference = preference
        self._appends = AppendsUnderWay() if appends is None else appends
        self._on_end = on_end
        self._period = config.add_entry_timeout_sec / ANSWER_TICKS
        self._timer: asyncio.TimerHandle | None = None
        self._change: asyncio.Task[None] | None = None
        self._channels: list[BookieChannel] = [find_channel(channel_of, bookie) for bookie in ensemble]
        self.machine = AppendMachine(
            ensemble,
            *quorums,
            sink=self._answered,
            lagging_bytes_max=config.lagging_bytes_max,
            last_add_confirmed=last_add_confirmed,
        )

    def submit(self, append: Append) -> None:
        """Sends the next group. `append.done` is called later, never from inside this call."""
        machine = self.machine
        channels = self._channels
        self._appends.begins()
        for send in machine.push(append):
            channels[send.index].add_entries(
                self._ledger_id, self._master_key, send.ids, send.entries, self._flags, send
            )
        if self._timer is None:
            self._timer = self._loop.call_later(self._period, self._on_tick)
        if machine.had_fault and machine.must_change:
            self._start_change()

    def end(self, error: LedgerError) -> None:
        """Ends the writer and fails all pending appends, in order, with `error`. Has no effect on a writer that has
        ended already."""
        machine = self.machine
        if machine.phase is ENDED:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for append in machine.end(error):
            self._deliver(append)
        on_end, self._on_end = self._on_end, _ignore  # so that writer and owner are freed without a garbage collection
        on_end(error)

    async def settled(self) -> None:
        """Returns when no ensemble change is under way. From then on this writer does not write the ledger's
        metadata."""
        if self._change is not None:
            await asyncio.wait([self._change])

    def _answered(self, send: Send, ids: Sequence[int], rc: int) -> None:
        if self.machine.answered(send, ids, rc):
            self._react()

    def _react(self) -> None:
        machine = self.machine
        if machine.had_fault:
            for send, ids in machine.take_refused():
                self._loop.call_later(retry_seconds(send.refusals), self._send_again, send, ids)
            if machine.broken is not None:
                self.end(machine.broken)
                return
            if machine.must_change:
                self._start_change()
                return
        while (append := machine.confirm_next()) is not None:
            self._deliver(append)

    def _send_again(self, send: Send, ids: Sequence[int]) -> None:
        """Repeats the send of entries that an overloaded bookie has refused, if the bookie still has to store them."""
        if self.machine.wanted(send):
            channel = self._channels[send.index]
            channel.add_entries(self._ledger_id, self._master_key, ids, send.entries_of(ids), self._flags, send)

    def _deliver(self, append: Append) -> None:
        try:
            append.done(append)
        except Exception:
            # A bug in this callback must not keep other groups from being told.
            logger.exception("ledger %d: the callback of entry %d failed", self._ledger_id, append.first_entry_id)
        self._appends.ends()

    def _on_tick(self) -> None:
        self._timer = None
        if self.machine.tick():
            self._timer = self._loop.call_later(self._period, self._on_tick)
        self._react()

    def _start_change(self) -> None:
        failures = {self.machine.ensemble[index]: rc for index, rc in self.machine.failures().items()}
        news = [bookie for bookie in failures if self._preference.failed(bookie)]
        level = logging.WARNING if news else logging.INFO
        logger.log(level, "ledger %d: replacing bookies that failed with %s", self._ledger_id, failures)
        self.machine.begin_change()
        self._change = self._loop.create_task(self._run_change())

    async def _run_change(self) -> None:
        try:
            await self._replace_failed()
        except LedgerError as error:
            self.end(error)
        except Exception:
            logger.exception("ledger %d: ensemble change failed", self._ledger_id)
            self.end(WriteFault(f"ledger {self._ledger_id}: ensemble change failed"))
        finally:
            self._change = None
        self._react()

    async def _replace_failed(self) -> None:
        machine = self.machine
        while machine.phase is CHANGING and (failed := machine.take_failed()):
            first = machine.last_add_confirmed + 1
            members = await self._keeper.replace(failed, first)
            if machine.phase is not CHANGING:
                return
            logger.info("ledger %d: ensemble %s from entry %d on", self._ledger_id, list(members), first)
            self._channels = [find_channel(self._channel_of, bookie) for bookie in members]
            for send in machine.ensemble_changed(members):
                self._channels[send.index].add_entries(
                    self._ledger_id, self._master_key, send.ids, send.entries, self._flags, send
                )
        if machine.phase is CHANGING:
            machine.resume()


def _ignore(error: LedgerError) -> None:
    pass
