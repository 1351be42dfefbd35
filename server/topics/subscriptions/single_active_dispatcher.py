"""The dispatcher of Exclusive and Failover subscriptions: one active consumer gets all messages, in order.

When another consumer of a Failover subscription becomes active, acknowledgements of the previous active consumer may
still be on their way. Therefore sending starts `active_consumer_failover_delay_time_millis` later, at the first entry
that is not acknowledged. The first consumer of an idle subscription need not wait, because there was no previous active
consumer.

Sources: AbstractDispatcherSingleActiveConsumer, PersistentDispatcherSingleActiveConsumer.
"""

import asyncio
import logging
from collections.abc import Sequence

from pyroaring import BitMap

from magnetar.server.topics.subscriptions.compacted_view import CompactedView
from magnetar.server.topics.subscriptions.consumer import Consumer, SubType
from magnetar.server.topics.subscriptions.dispatch_source import DispatchSource, PlannedRead
from magnetar.server.topics.subscriptions.dispatcher import Dispatcher
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages, messages_of, unacknowledged
from magnetar.server.topics.subscriptions.read_size_rules import entries_to_read, entries_within
from magnetar.server.topics.subscriptions.redelivery import ReplayQueue
from magnetar.server.topics.subscriptions.single_active_rules import Candidate, choose_active
from magnetar.storage.managed.entry_run import EntryRun
from pulsar_proto.ids import Position

log = logging.getLogger(__name__)


class SingleActiveDispatcher(Dispatcher):
    """Sends to `active`; the other consumers of a Failover subscription wait."""

    def __init__(self, source: DispatchSource, sub_type: SubType.ValueType, topic: str, partition_index: int) -> None:
        super().__init__(source)
        self.active: Consumer | None = None
        self._consumers: list[Consumer] = []
        self._is_failover = sub_type == SubType.Failover
        self._topic = topic
        self._partition_index = partition_index
        self._switching: asyncio.TimerHandle | None = None
        """The timer that runs while a new active consumer waits for the acknowledgements of its predecessor."""
        self._holes = ReplayQueue()
        """Entries in holes (see `hole_rules`) that are to be sent again, out of order."""

    def add(self, consumer: Consumer) -> None:
        assert self._is_failover or not self._consumers, "an Exclusive subscription has one consumer"
        self._consumers.append(consumer)
        if not self._choose() and self._is_failover:
            # A newcomer that is not active is told so at once, but after the answer to SUBSCRIBE, which is being
            # written.
            self._loop.call_soon(self._tell, consumer)

    def remove(self, consumer: Consumer) -> None:
        self._consumers.remove(consumer)
        if self._consumers:
            self._choose()
        elif self.active is not None:
            self.active = None
            self._cancel_switch()
            self.rewind()

    @property
    def holes_waiting(self) -> ReplayQueue:
        """The entries in holes that are to be sent again. The caller must not change the queue."""
        return self._holes

    @property
    def switch_seconds(self) -> float | None:
        """Returns in how many seconds a new active consumer gets its first messages, or None when none waits."""
        return None if self._switching is None else max(0.0, self._switching.when() - self._loop.time())

    def rewind_for(self, consumer: Consumer) -> None:
        """Handles REDELIVER_UNACKNOWLEDGED_MESSAGES: if `consumer` is the active consumer, sends all unacknowledged
        entries again."""
        if consumer is self.active and self._switching is None:
            self.rewind()
            self.kick()

    def rewind(self) -> None:
        super().rewind()
        self._holes.clear()

    def fill(self, ledger_id: int, entries: BitMap) -> int:
        """Delivers entries in holes again. Leaves out the entries that will be sent anyway: entries from `waiting_from`
        on, and entries in `_holes`. Returns the number of the entries, because the number of messages in them is not
        known before they are read."""
        waiting = self.waiting_from
        if ledger_id > waiting.ledger_id:
            return 0
        if ledger_id == waiting.ledger_id:
            entries = entries & BitMap(range(waiting.entry_id))
        if entries:
            entries = entries - BitMap(self._holes.within(ledger_id, entries.min(), entries.max() + 1))
        self._holes.add(ledger_id, entries)
        self.kick()
        return len(entries)

    def close(self) -> None:
        self._cancel_switch()
        super().close()

    # --- Dispatcher --------------------------------------------------------------------------------------------------

    def _room(self) -> int:
        active = self.active
        if active is None or self._switching is not None:
            return 0
        if not active.can_take:
            active.watch_writable()
            return 0
        return entries_to_read(active.permits, active.average.value, self.settings.dispatcher_max_read_batch_size)

    def _send(self, messages: OutgoingMessages) -> int:
        active = self.active
        assert active is not None
        if self._switching is not None:
            # These entries were read before the switch; the new consumer begins at the first unacknowledged entry.
            return 0
        count = entries_within(messages.counts, messages.total, 0, active.permits)
        if count:
            active.take(messages, 0, count)
            if self.throttles:
                self._sent(messages.part(range(count)))
            active.write(messages, 0, count)
        return count

    @property
    def _has_replays(self) -> bool:
        return bool(self._holes)

    def _next_replay(self, room: int) -> PlannedRead:
        position, count = self._holes.first_run(room)
        return PlannedRead(position, count, True)

    def _send_again(self, read: PlannedRead, run: EntryRun) -> None:
        """Sends the entries that were read for `_holes`. Entries that do not exist or are acknowledged are dropped."""
        ledger_id, first = read.position
        end = first + read.entries_max
        left: Sequence[int] = ()
        generation = self._generation
        if run.entries and run.ledger_id == ledger_id and run.first_entry_id < end:
            end = min(end, run.first_entry_id + len(run.entries))
            wanted = self._holes.within(ledger_id, run.first_entry_id, end)
            messages = unacknowledged(messages_of(run, wanted), 0, self.acks)
            if messages.payloads:
                sent = self._send(messages)
                left = messages.entry_ids[sent:]
        if generation == self._generation:
            self._holes.discard(ledger_id, range(first, end))
            self._holes.add(ledger_id, left)

    def _why_nobody_takes(self) -> str:
        active = self.active
        if active is None:
            return "no consumer"
        if self._switching is not None:
            return f"switching to consumer {active.name}"
        if active.permits <= 0:
            return f"consumer {active.name} has no permits"
        return f"consumer {active.name} does not read its connection"

    # --- the compacted log -------------------------------------------------------------------------------------------

    def _start(self) -> Position:
        if self.active is not None and isinstance(self._ledger, CompactedView):
            return self._ledger.start(self.active.start_asked)
        return super()._start()

    def _read_as_asked(self, active: Consumer) -> None:
        """Makes the next reads return the compacted log or the whole log, as the active consumer asked with
        `read_compacted`. The caller rewinds afterwards."""
        source = self._source
        view = source.compacted_view() if active.read_compacted else None
        if view is None:
            self._ledger, self._messages_of = source.ledger, source.messages_of
        else:
            self._ledger, self._messages_of = view, view.messages_of
        self.acks = source.deliverable(source.cursor if view is None else view)

    # --- the active consumer -----------------------------------------------------------------------------------------

    def _choose(self) -> bool:
        """Chooses the active consumer. Returns whether the active consumer has changed. A Failover consumer that
        replaces another consumer gets its first messages only after the delay."""
        index = choose_active(
            [Candidate(consumer.name, consumer.priority) for consumer in self._consumers],
            self._topic,
            self._partition_index,
            always_hash=self.settings.active_consumer_failover_consistent_hashing,
        )
        previous, self.active = self.active, self._consumers[index]
        if self.active is previous:
            return False
        self._read_as_asked(self.active)
        log.info("%s: %s is active, was %s", self._source, self.active.name, previous.name if previous else None)
        delay_ms = self.settings.active_consumer_failover_delay_time_millis
        if self._is_failover and previous is not None and delay_ms > 0:
            if self._switching is None:
                self._switching = self._loop.call_later(delay_ms / 1000, self._switch)
        elif self._switching is None:
            self.rewind()
            self._loop.call_soon(self._begin)
        return True

    def _switch(self) -> None:
        self._switching = None
        self.rewind()
        self._begin()

    def _begin(self) -> None:
        if self._is_failover:
            for consumer in self._consumers:
                self._tell(consumer)
        self.kick()

    def _tell(self, consumer: Consumer) -> None:
        if not consumer.is_closed:
            consumer.tell_active(consumer is self.active)

    def _cancel_switch(self) -> None:
        if self._switching is not None:
            self._switching.cancel()
            self._switching = None
