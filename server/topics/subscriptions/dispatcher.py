"""Sends a subscription's backlog to its consumers as fast as the consumers take messages: the code that all
subscription types share.

One invariant holds: while there are messages for a consumer that can take messages, data is being sent or a read is
pending. Everything that may make that condition true calls `kick`: a confirmed append, permits, a connection that takes
bytes again, a consumer that comes or leaves, a redelivery.

`kick` sends entries that are in memory at once, without a task. For entries that must be read first, `kick` starts one
task, which reads, sends and reads again until consumers or data run out. A subscription therefore has at most one read
in flight. When permits run out in the middle of a read, the dispatcher holds the entries that were read and not sent.
Held entries come from one read at most, and are sent before any other new entries.

The dispatcher asks whether an entry is acknowledged when it sends the entry, not when it reads the entry.

Sources: PersistentDispatcherSingleActiveConsumer and PersistentDispatcherMultipleConsumers (readMoreEntries,
readEntriesComplete, readEntriesFailed).
"""

import asyncio
import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping

from pyroaring import BitMap

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.process.turns import Turns
from magnetar.server.topics.subscriptions.compacted_view import CompactedView
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.dispatch_source import DispatchSource, PlannedRead, ReadUnderWay
from magnetar.server.topics.subscriptions.dispatch_throttle_rules import Throttle, exhausted_rates
from magnetar.server.topics.subscriptions.outgoing_messages import AckView, OutgoingMessages, left_out, unacknowledged
from magnetar.server.topics.transactions.readable_log import ReadableLog
from magnetar.storage.managed.entry_run import EntryRun
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.backoff import backoff
from pulsar_proto.ids import Position
from pulsar_proto.records.payload import Special

log = logging.getLogger(__name__)

THROTTLE_SECONDS_MIN = 0.001

INTERNAL_ERROR = "internal error, see the log"
NEVER_THROTTLED: Counter[tuple[str, str]] = Counter()

ROUNDS_MAX = 4
"""How many runs (groups of consecutive entries) one `kick` sends before the event loop runs other tasks. Four runs of a
hundred entries each take some milliseconds."""


class Dispatcher:  # no ABC, because it is compiled: see CONTRIBUTING.md
    """Sends to the consumers of one subscription. `read_position` is the first entry that was not read yet."""

    def __init__(self, source: DispatchSource) -> None:
        self.cursor = source.cursor
        self.settings = source.settings
        self.read_position = source.cursor.next_unacked(source.cursor.mark_delete)
        self._source = source
        self._ledger: ReadableLog | CompactedView = source.ledger
        self.acks: AckView = source.deliverable(source.cursor)
        self._messages_of = source.messages_of
        self._loop = asyncio.get_running_loop()
        self._held: OutgoingMessages | None = None
        """Entries that were read and not sent, or None. The first entry to send has the index `_held_at`. Held entries
        are sent before new entries."""
        self._held_at = 0
        self._reading: asyncio.Task[None] | None = None
        self.read_under_way: ReadUnderWay | None = None
        """The read of the log that has not ended, if there is one."""
        self._generation = 0
        """A number that grows whenever the read position is set anew. Entries that were read under an older generation
        are not sent as new entries and not held, because the dispatcher reads these entries again."""
        self.rewinds = 0
        self._failures = 0
        self.failure = ""
        """The reason why the last read failed; empty after a read that succeeded."""
        self._retry: asyncio.TimerHandle | None = None
        self.throttles: tuple[Throttle, ...] = ()
        """The throttles of the topic and of the subscription, as far as there are any."""
        self._throttled: asyncio.TimerHandle | None = None
        self.throttled_events = NEVER_THROTTLED
        """How often each of the results of `exhausted_rates` kept messages back."""
        self._messages_per_entry = 1.0
        """The average number of messages in the entries that were sent last. Known only while there are throttles."""
        self._sending = False
        """Whether this object is sending now. Meanwhile a connection may close or a consumer may be unblocked, and both
        events call `kick`. Such a call only sets `_kicked_while_sending`, because sending is not reentrant."""
        self._progress = False
        self._kicked_while_sending = False
        self._is_closed = False

    # --- overridden for each type of subscription --------------------------------------------------------------------

    @abstractmethod
    def add(self, consumer: Consumer) -> None: ...

    @abstractmethod
    def remove(self, consumer: Consumer) -> None: ...

    def set_policies(self, policies: EffectivePolicies) -> None:
        """Applies the policies that hold from now on. Also called once before the first consumer connects."""
        self.throttles = self._source.throttles()
        self._end_throttling()
        self.kick()

    def fill(self, ledger_id: int, entries: BitMap) -> int:
        """Delivers those of `entries` again that consumers hold unacknowledged. Returns how many messages these entries
        hold."""
        return 0

    @abstractmethod
    def _room(self) -> int:
        """Returns how many entries can be sent now, or 0 when no consumer can take an entry. After a result of 0 the
        dispatcher is woken when the connection of a consumer with permits is writable again."""

    @abstractmethod
    def _send(self, messages: OutgoingMessages) -> int:
        """Sends as many of the first entries of `messages` as consumers take. Returns how many entries were sent: at
        least one if `_room()` was positive just before."""

    @property
    def _has_replays(self) -> bool:
        """Whether entries wait to be sent again. Such entries are sent before new entries."""
        return False

    def _next_replay(self, room: int) -> PlannedRead:
        """Returns the read that brings the first entries that wait to be sent again."""
        raise AssertionError("this type never replays")

    def _send_again(self, read: PlannedRead, run: EntryRun) -> None:
        """Sends the entries of `run`, which is the result of `read`, a read of entries that wait to be sent again."""
        raise AssertionError("this type never replays")

    @abstractmethod
    def _why_nobody_takes(self) -> str:
        """Returns the phrase that `why_idle` reports when `_room()` is 0."""

    # --- for subscriptions -------------------------------------------------------------------------------------------

    def kick(self) -> None:
        """Sends the entries that can be sent, and begins a read if a read is needed. Never raises."""
        if self._sending:
            self._kicked_while_sending = True
            return
        if self._reading is not None or self._retry is not None or self._is_closed:
            return
        read = self._send_from_memory()
        if read is not None:
            self._reading = self._loop.create_task(self._read_on(read, self._generation))

    def rewind(self) -> None:
        """Moves the read position back to the first unacknowledged entry. Entries that were read and not sent are
        forgotten."""
        self._generation += 1
        self.failure = ""
        self.rewinds += 1
        self._held = None
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self.read_position = self._start()

    def _start(self) -> Position:
        """Returns the position where reading begins after a rewind."""
        return self.cursor.next_unacked(self.cursor.mark_delete)

    def backlog_shrank(self) -> None:
        """Called when the broker itself has acknowledged entries, because they expired or were skipped. The dispatcher
        does not read these entries any more; consumers keep the entries that they hold."""
        start = self.waiting_from
        self._generation += 1
        self._held = None
        self.read_position = self.cursor.next_unacked(start)
        self.kick()

    def close(self) -> None:
        self._is_closed = True
        self._held = None
        for pending in (self._reading, self._retry, self._throttled):
            if pending is not None:
                pending.cancel()

    @property
    def waiting_from(self) -> Position:
        """Returns the position of the first entry that was not sent since the last rewind. All entries from this
        position on wait to be sent."""
        if self._held is None:
            return self.read_position
        return min(self.read_position, Position(self._held.ledger_id, self._held.entry_ids[self._held_at]))

    @property
    def held(self) -> tuple[int, BitMap] | None:
        """Returns (ledger, entries) of the entries that were read and not sent."""
        return None if self._held is None else (self._held.ledger_id, BitMap(self._held.entry_ids[self._held_at :]))

    @property
    def is_reading(self) -> bool:
        return self._reading is not None

    @property
    def retry_seconds(self) -> float | None:
        """Returns in how many seconds a read that failed is tried again, or None when no read has failed."""
        return None if self._retry is None else max(0.0, self._retry.when() - self._loop.time())

    @property
    def log_is_compacted(self) -> bool:
        """Whether the consumer reads the compacted log, in which entries are left out."""
        return isinstance(self._ledger, CompactedView)

    @property
    def is_caught_up(self) -> bool:
        """Whether all new entries were sent."""
        return self._held is None and self.read_position > self._ledger.last_confirmed

    def why_idle(self) -> str:
        """Returns a phrase for stats that says why the subscription's consumers get no messages now."""
        if self._is_closed:
            return "closed"
        if self.failure and (self._retry is not None or self._reading is not None):
            return f"cannot read on: {self.failure}"
        if self._reading is not None:
            return "reading"
        if self._throttled is not None:
            return "the dispatch rate is reached"
        if self._room() == 0:
            return self._why_nobody_takes()
        return "everything was sent" if self.is_caught_up else "about to send"

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _send_from_memory(self) -> PlannedRead | None:
        """Sends the entries that are in memory. Returns the read that is needed to go on. Returns None when nothing can
        be sent now, or when this call has scheduled another `kick`."""
        self._sending = True
        try:
            for _ in range(ROUNDS_MAX):
                self._kicked_while_sending = False
                read = self._send_once()
                if read is not None:
                    return read
                if not self._progress and not self._kicked_while_sending:
                    return None
        except Exception:
            log.exception("%s: sending failed", self._source)
            self._read_failed(INTERNAL_ERROR)
            return None
        finally:
            self._sending = False
        self._loop.call_soon(self.kick)
        return None

    def _send_once(self) -> PlannedRead | None:
        """Sends one run if the run is in memory, otherwise returns the read that will bring the run. Sets `_progress`
        to whether another round may send more."""
        self._progress = False
        held = self._held
        replays = self._has_replays
        if held is None and not replays and self.read_position > self._ledger.last_confirmed:
            return None
        room = self._room()
        if room == 0 or self._is_closed:
            return None
        if self.throttles:
            room = self._within_rates(room)
            if room == 0:
                return None
        if replays:
            read = self._next_replay(room)
            run = self._ledger.cached(read.position, read.entries_max, self.settings.dispatcher_max_read_size_bytes)
            if run is None:
                return read
            self._send_again(read, run)
        elif held is not None:
            self._send_new(unacknowledged(held, self._held_at, self.acks))
        else:
            run = self._ledger.cached(self.read_position, room, self.settings.dispatcher_max_read_size_bytes)
            if run is None:
                return PlannedRead(self.read_position, room, False)
            self._take(run)
        self._progress = self._has_replays or not self.is_caught_up
        return None

    def _within_rates(self, room: int) -> int:
        """Returns how many of `room` entries the dispatch rates allow now. After a result of 0 a timer kicks the
        dispatcher when the rates allow entries again."""
        now_s = self._loop.time()
        allowed = min(throttle.messages_now(now_s) for throttle in self.throttles)
        if allowed > 0:
            return int(min(room, max(1, allowed / self._messages_per_entry)))
        if not self.throttled_events:
            self.throttled_events = Counter()
        self.throttled_events.update(exhausted_rates(self.throttles, now_s))
        if self._throttled is None:
            wait_s = max(throttle.wait_seconds(now_s) for throttle in self.throttles)
            self._throttled = self._loop.call_later(max(wait_s, THROTTLE_SECONDS_MIN), self._end_throttling)
        return 0

    def _end_throttling(self) -> None:
        if self._throttled is not None:
            self._throttled.cancel()
            self._throttled = None
            self.kick()

    def _sent(self, messages: OutgoingMessages) -> None:
        """Charges the throttles for `messages`. While there are `throttles`, subclasses call this method after each
        send."""
        now_s = self._loop.time()
        size = sum(map(len, messages.payloads))
        self._messages_per_entry = max(1.0, messages.total / max(1, len(messages)))
        for throttle in self.throttles:
            throttle.sent(messages.total, size, now_s)

    def _take(self, run: EntryRun) -> None:
        """Moves `read_position` to the first entry after the run that was read, and sends the run. An empty run means
        that the log has no entry at or after the read position."""
        if run.entries:
            messages = unacknowledged(self._messages_of(run), 0, self.acks)
            self.read_position = Position(run.ledger_id, run.end_entry_id)
            if messages.specials is not None:
                messages = self._ordinary(messages, messages.specials)
            self._send_new(messages)
        else:
            # The position is not after the last entry, but the run is empty, so the entries from this position on were
            # deleted.
            self.read_position = self._ledger.next_position(self._ledger.last_confirmed)

    def _ordinary(self, messages: OutgoingMessages, specials: Mapping[int, Special]) -> OutgoingMessages:
        """Returns those of `messages` that are to be sent now. Acknowledges those that no consumer gets
        (`left_out`)."""
        unsent = left_out(messages, specials, self._source.is_aborted)
        if unsent:
            self.cursor.ack([(messages.ledger_id, entry_id, None) for entry_id in unsent])
        return messages.without(unsent)

    def _send_new(self, messages: OutgoingMessages) -> None:
        self._held = None
        if not messages.payloads:
            return
        # A connection may close within _send; its consumer then leaves, which may cause a rewind. After a rewind the
        # rest of these messages must not be held, because they are read again.
        generation = self._generation
        sent = self._send(messages)
        if sent < len(messages.payloads) and generation == self._generation:
            self._held = messages
            self._held_at = sent

    async def _read_on(self, first: PlannedRead, generation: int) -> None:
        """Reads and sends until nothing more can be done. `generation` is the value of `_generation` when `first` was
        planned. If a rewind came after that moment, the entries of the read `first` are not sent."""
        read: PlannedRead | None = first
        turns = Turns()
        try:
            while read is not None:
                await turns.breathe()  # a read that the bookie answers from memory never yields to the loop
                self.read_under_way = ReadUnderWay(read.position, self._loop.time())
                run = await self._ledger.read(
                    read.position, read.entries_max, self.settings.dispatcher_max_read_size_bytes
                )
                if self._is_closed:
                    return
                self._failures = 0
                self.failure = ""
                self._sending = True
                try:
                    if read.again:
                        self._send_again(read, run)
                    elif generation == self._generation:
                        self._take(run)
                finally:
                    self._sending = False
                read = self._send_from_memory()
                generation = self._generation
        except ManagedLedgerError as error:
            if str(error) != self.failure:
                log.warning("%s: reading failed at %s: %s", self._source, read and read.position, error)
            self._read_failed(str(error))
        except Exception:
            log.exception("%s: reading or sending failed at %s", self._source, read and read.position)
            self._read_failed(INTERNAL_ERROR)
        finally:
            self._reading = self.read_under_way = None

    def _read_failed(self, why: str) -> None:
        """Arranges another try after a delay, which grows with each failure (`dispatcherReadFailureBackoff…`)."""
        self.failure = why
        settings = self.settings
        self._failures += 1
        delay_ms = backoff(
            self._failures,
            settings.dispatcher_read_failure_backoff_initial_time_in_ms,
            settings.dispatcher_read_failure_backoff_max_time_in_ms,
        )
        if self._retry is None and not self._is_closed:
            self._retry = self._loop.call_later(delay_ms / 1000, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self.kick()
