"""The dispatcher of a Shared subscription: consumers take turns, and messages that a consumer gives back unacknowledged
go to other consumers.

The replay queue holds the entries that are to be sent again. Entries in the replay queue are sent before new entries,
in order of positions. An entry leaves the queue when it is sent or acknowledged. When the last consumer leaves, the
dispatcher forgets all entries, and only the cursor stays: the next consumer starts at the first entry that is not
acknowledged.

Invariant: every entry before `read_position` that was not acknowledged is pending at exactly one consumer, or in the
replay queue, or held, or delayed, or a chunk that waits for the consumer which has the other chunks of its message.

Source: PersistentDispatcherMultipleConsumers.
"""

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyroaring import BitMap

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.topics.subscriptions.chunk_owners import ChunkOwners
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.dispatch_source import DispatchSource, PlannedRead
from magnetar.server.topics.subscriptions.dispatcher import Dispatcher
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages, unacknowledged
from magnetar.server.topics.subscriptions.read_size_rules import entries_within
from magnetar.server.topics.subscriptions.redelivery import RedeliveryCounts, ReplayQueue
from magnetar.server.topics.subscriptions.shared_rules import RoundRobin
from magnetar.storage.managed.entry_run import EntryRun
from pulsar_proto.counted import counted
from pulsar_proto.ids import Position
from pulsar_proto.records.payload import Special

log = logging.getLogger(__name__)


class SharedDispatcher(Dispatcher):
    """Sends to the consumers in turns. `replay` is the replay queue."""

    def __init__(self, source: DispatchSource) -> None:
        super().__init__(source)
        self.replay = ReplayQueue()
        self.redelivery_counts = RedeliveryCounts()
        self.unacked_messages = 0
        """How many messages all consumers together hold unacknowledged."""
        self.blocked = False
        """Whether the consumers together hold as many unacknowledged messages as policies allow. While this is True, no
        message is sent."""
        self._some_are_blocked = False
        """Whether some consumer may be blocked. While this is False, an acknowledgement does not require a look at all
        consumers."""
        self._consumers: RoundRobin[Consumer] = RoundRobin()
        self.chunks = ChunkOwners()
        """Knows which chunks wait for the consumer that has the other chunks of their message."""
        self._delayed = source.delayed
        self.delays_are_full = False
        """Whether reading has stopped because as many delayed messages wait as the topic's index holds."""
        self.unacked_max = self.settings.max_unacked_messages_per_subscription

    def set_policies(self, policies: EffectivePolicies) -> None:
        self.unacked_max = policies.max_unacked_messages_per_subscription
        self.blocked = 0 < self.unacked_max <= self.unacked_messages
        self._some_are_blocked = True
        super().set_policies(policies)

    @property
    def consumers(self) -> Iterator[Consumer]:
        return iter(self._consumers)

    def add(self, consumer: Consumer) -> None:
        if not len(self._consumers):
            self.rewind()
        self._consumers.add(consumer, consumer.priority)

    def remove(self, consumer: Consumer) -> None:
        self._consumers.remove(consumer)
        assert consumer.pending is not None
        self.unacked_messages -= consumer.pending.messages
        for ledger_id, entry_ids in self.chunks.gone(consumer):
            self.replay.add(ledger_id, entry_ids)
        if len(self._consumers):
            for ledger_id, entry_ids in consumer.pending.drain():
                self._wait_again(ledger_id, entry_ids)
            self._unblock_if_drained()
            self._loop.call_soon(self.kick)
        else:
            self.replay.clear()
            self.chunks.clear()
            self.redelivery_counts.clear()
            self.blocked = False
            self.rewind()
        assert self.unacked_messages >= 0

    # --- acknowledgements and redelivery -----------------------------------------------------------------------------

    def settle(
        self, consumer: Consumer, ledger_id: int, entry_id: int, remaining: int, *, withheld: bool = False
    ) -> None:
        """Accounts for an acknowledgement that the cursor has applied and that left `remaining` messages of the entry
        unacknowledged. Any consumer may acknowledge an entry, but only the consumer to which the entry was sent holds
        the entry. After an acknowledgement in a transaction (`withheld`) the entry keeps its redelivery count, because
        it may be delivered again. The caller calls `settled` after a group of such calls."""
        assert consumer.pending is not None
        if remaining:
            owner = consumer if consumer.pending.get(ledger_id, entry_id) else self.holder_of(ledger_id, entry_id)
            if owner is not None and owner.pending is not None:
                before = owner.pending.messages
                owner.pending.reduce(ledger_id, entry_id, remaining)
                self.unacked_messages += owner.pending.messages - before
            return
        messages = consumer.pending.pop(ledger_id, entry_id)
        if messages is None:
            other = self.holder_of(ledger_id, entry_id)
            if other is not None and other.pending is not None:
                messages = other.pending.pop(ledger_id, entry_id)
            elif self.replay:
                self.replay.discard(ledger_id, (entry_id,))
        self.unacked_messages -= messages or 0
        if self.redelivery_counts and not withheld:
            self.redelivery_counts.forget(ledger_id, entry_id)

    def settle_all(self, consumer: Consumer, ledger_id: int, entry_ids: list[int]) -> None:
        """Does what `settle` does for entries of which nothing is left unacknowledged."""
        assert consumer.pending is not None
        if not self.redelivery_counts and consumer.pending.pop_singles(ledger_id, entry_ids):
            self.unacked_messages -= len(entry_ids)
            return
        for entry_id in entry_ids:
            self.settle(consumer, ledger_id, entry_id, 0)

    def settled(self) -> None:
        """Unblocks each consumer that holds few enough unacknowledged messages now, and unblocks the subscription if
        all consumers together hold few enough."""
        if not self.blocked and not self._some_are_blocked:
            return
        went_on = self._unblock_if_drained()
        for consumer in self._consumers:
            if consumer.unblock():
                went_on = True
        self._some_are_blocked = any(consumer.blocked for consumer in self._consumers)
        if went_on:
            self.kick()

    def redeliver(self, consumer: Consumer, positions: Iterable[tuple[int, int]] | None) -> int:
        """Takes entries back from `consumer` and sends them again, with a higher redelivery count: the entries in
        `positions`, or all entries that the consumer holds when `positions` is None. Returns how many messages these
        entries hold."""
        pending = consumer.pending
        assert pending is not None
        before = pending.messages
        if positions is None:
            for ledger_id, entry_ids in pending.drain():
                self._again(ledger_id, entry_ids)
        else:
            for ledger_id, entry_id in positions:
                if pending.pop(ledger_id, entry_id) is not None:
                    self._again(ledger_id, [entry_id])
        count = before - pending.messages
        self.unacked_messages -= count
        if count:
            consumer.unblock(at_half=False)
            self._unblock_if_drained()
            self.kick()
        return count

    def give_back(self, ledger_id: int, entries: BitMap, *, again: bool) -> None:
        """Called when a transaction holds these entries no more: sends those of them that the dispatcher has passed
        over and that no consumer has. With `again` the transaction was aborted, and the entries get a higher redelivery
        count; entries of which a consumer has another part are taken back, and sent with all that is left of them."""
        if ledger_id > self.read_position.ledger_id or not len(self._consumers):
            return
        held = [(each, each.pending.among(ledger_id, entries)) for each in self._consumers if each.pending is not None]
        waiting = self.held
        if waiting is not None and waiting[0] == ledger_id:
            entries = entries - waiting[1]
        if ledger_id == self.read_position.ledger_id:
            entries = entries & BitMap(range(self.read_position.entry_id))
        for _, parts in held:
            entries = entries - BitMap(parts)
        passed = [each for each in entries if not self.cursor.is_acked(ledger_id, each)]
        self._became_due(ledger_id, passed)
        if again:
            self.redelivery_counts.increment(ledger_id, passed)
            for consumer, parts in held:
                self.redeliver(consumer, [(ledger_id, entry_id) for entry_id in parts])
        self.kick()

    def fill(self, ledger_id: int, entries: BitMap) -> int:
        # Look at all consumers first: entries that one consumer gives back may be sent to another consumer at once.
        held = [(each, each.pending.among(ledger_id, entries)) for each in self._consumers if each.pending is not None]
        return sum(
            self.redeliver(consumer, [(ledger_id, entry_id) for entry_id in entry_ids])
            for consumer, entry_ids in held
            if entry_ids
        )

    def _again(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Queues entries that consumers held, so that they are sent again with a higher redelivery count."""
        self._wait_again(ledger_id, entry_ids)
        self.redelivery_counts.increment(ledger_id, entry_ids)

    def _wait_again(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Queues entries that consumers held, so that they are sent again."""
        self.replay.add(ledger_id, entry_ids)

    def holder_of(self, ledger_id: int, entry_id: int) -> Consumer | None:
        """Returns the consumer that holds the entry unacknowledged, or None when no consumer holds the entry."""
        for consumer in self._consumers:
            if consumer.pending is not None and consumer.pending.get(ledger_id, entry_id) is not None:
                return consumer
        return None

    def _unblock_if_drained(self) -> bool:
        if not self.blocked or self.unacked_messages >= max(1, self.unacked_max // 2):
            return False
        self.blocked = False
        log.info("%s: unblocked at %d unacknowledged messages", self._source, self.unacked_messages)
        return True

    # --- delays ------------------------------------------------------------------------------------------------------

    def due(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Called when delayed entries are due (see `DelayedDelivery`). Sends the entries that the dispatcher passed
        over, except entries that a consumer holds or that are acknowledged."""
        if ledger_id > self.read_position.ledger_id:
            return
        if ledger_id == self.read_position.ledger_id:
            end = bisect_left(entry_ids, self.read_position.entry_id)
            entry_ids = entry_ids[:end]
        pending = [consumer.pending for consumer in self._consumers if consumer.pending]
        passed = [
            entry_id
            for entry_id in entry_ids
            if not self.cursor.is_acked(ledger_id, entry_id)
            and not any(each.get(ledger_id, entry_id) for each in pending)
        ]
        if passed:
            self._became_due(ledger_id, passed)

    def _became_due(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Queues delayed entries, which the dispatcher has passed over, to be sent now."""
        self.replay.add(ledger_id, entry_ids)

    @property
    def delayed_messages(self) -> int:
        """Returns how many entries the dispatcher passed over because they are not due."""
        passed = self._delayed.index.before(self.read_position)
        return sum(self.cursor.unacked_among(ledger_id, entries) for ledger_id, entries in passed)

    def _send_once(self) -> PlannedRead | None:
        if self.chunks.waiting:
            for ledger_id, entry_ids in self.chunks.ready():
                self.replay.add(ledger_id, entry_ids)
        if self._delayed.index:
            self.read_position = self._delayed.index.pass_over(self.read_position)
        return super()._send_once()

    def _ordinary(self, messages: OutgoingMessages, specials: Mapping[int, Special]) -> OutgoingMessages:
        messages = super()._ordinary(messages, specials)
        if not self._delayed.is_enabled:
            return messages
        now_ms = self._delayed.clock_ms()
        ledger_id = messages.ledger_id
        kept: list[int] = []
        for index, entry_id in enumerate(messages.entry_ids):
            special = specials.get(entry_id)
            if special is None or special.deliver_at_ms <= now_ms:
                kept.append(index)
            elif not self._delayed.delay(ledger_id, entry_id, special.deliver_at_ms):
                self.delays_are_full = True
                self.read_position = Position(ledger_id, entry_id)
                break
        return messages.part(kept)

    # --- Dispatcher --------------------------------------------------------------------------------------------------

    def _room(self) -> int:
        if self.blocked:
            return 0
        entries_max = self._entries_max()
        entries = self._consumers.entries(entries_max)
        if not entries:
            for consumer in self._consumers:
                consumer.watch_writable()
        elif self._delayed.index:
            if self.delays_are_full and not self._has_replays and self._held is None:
                self.delays_are_full = self._delayed.index.is_full
                return 0 if self.delays_are_full else entries_max
            return entries_max  # most of the entries that a read brings may not be due yet
        return entries

    def _entries_max(self) -> int:
        """Returns how many entries one read may bring."""
        return self.settings.dispatcher_max_read_batch_size

    @property
    def _has_replays(self) -> bool:
        return bool(self.replay)

    def _next_replay(self, room: int) -> PlannedRead:
        position, count = self.replay.first_run(room)
        return PlannedRead(position, count, True)

    def _send_again(self, read: PlannedRead, run: EntryRun) -> None:
        """Sends the entries that were read for the replay queue. Entries of the queue that do not exist or are
        acknowledged are removed from the queue. Entries that left the queue during the read are not sent."""
        ledger_id, first = read.position
        end = first + read.entries_max
        if not run.entries or run.ledger_id != ledger_id or run.first_entry_id >= end:
            self._drop(ledger_id, range(first, end))
            return
        messages = unacknowledged(self._messages_of(run), 0, self.acks)
        found = set(messages.entry_ids)
        looked_at = range(first, min(end, run.first_entry_id + len(run.entries)))
        self._drop(ledger_id, [entry_id for entry_id in looked_at if entry_id not in found])
        still = [i for i, entry_id in enumerate(messages.entry_ids) if self.replay.contains(ledger_id, entry_id)]
        if len(still) < len(messages.payloads):
            messages = unacknowledged(messages.pick(still), 0, self.acks)
        self._send(messages, again=True)

    def _drop(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Removes from the queue entries that do not exist or are acknowledged, perhaps by the broker itself."""
        self.replay.discard(ledger_id, entry_ids)
        if self.redelivery_counts:
            for entry_id in entry_ids:
                self.redelivery_counts.forget(ledger_id, entry_id)

    def _send(self, messages: OutgoingMessages, again: bool = False) -> int:
        specials = messages.specials
        if specials is not None and any(specials[each].chunk for each in messages.entry_ids if each in specials):
            return self._send_chunks(messages, specials, again)
        at = 0
        total = len(messages.payloads)
        ledger_id = messages.ledger_id
        turn = self.settings.dispatcher_max_round_robin_batch_size if len(self._consumers) > 1 else total
        redelivery_counts = self.redelivery_counts.of_ledger(ledger_id)
        while at < total and not self.blocked:
            consumer = self._consumers.pick()
            if consumer is None:
                break
            room = consumer.room
            if self.unacked_max:
                room = min(room, self.unacked_max - self.unacked_messages)
            share = entries_within(messages.counts, messages.total, at, room)
            stop = min(total, at + turn, at + share)
            assert stop > at, "who can take messages has room for one"
            if again:
                self.replay.discard(ledger_id, messages.entry_ids[at:stop])
            self.unacked_messages += consumer.take(messages, at, stop)
            self._some_are_blocked |= consumer.blocked
            self._block_if_full()
            if self.throttles:
                self._sent(messages.part(range(at, stop)))
            consumer.write(messages, at, stop, redelivery_counts)
            at = stop
        return at

    def _send_chunks(self, messages: OutgoingMessages, specials: Mapping[int, Special], again: bool) -> int:
        """Sends a run (a group of consecutive entries) that contains chunks, one entry after the other, because each
        chunk may have to go to another consumer or to wait for its owner."""
        ledger_id = messages.ledger_id
        redelivery_counts = self.redelivery_counts.of_ledger(ledger_id)
        for index, entry_id in enumerate(messages.entry_ids):
            special = specials.get(entry_id)
            chunk = None if special is None else special.chunk
            consumer = None if chunk is None else self.chunks.owner(chunk)
            if consumer is None and not self.blocked:
                consumer = self._consumers.pick()
            if consumer is None or self.blocked:
                return index
            if again:
                self.replay.discard(ledger_id, (entry_id,))
            if not consumer.can_take:
                self.chunks.wait(consumer, ledger_id, entry_id)
                continue
            self.unacked_messages += consumer.take(messages, index, index + 1)
            self._some_are_blocked |= consumer.blocked
            self._block_if_full()
            if chunk is not None:
                self.chunks.sent(chunk, consumer)
            if self.throttles:
                self._sent(messages.part(range(index, index + 1)))
            consumer.write(messages, index, index + 1, redelivery_counts)
        return len(messages)

    def _block_if_full(self) -> None:
        if 0 < self.unacked_max <= self.unacked_messages and not self.blocked:
            self.blocked = True
            log.info("%s: blocked at %d unacknowledged messages", self._source, self.unacked_messages)

    def _why_nobody_takes(self) -> str:
        if not len(self._consumers):
            return "no consumer"
        if self.blocked:
            return f"{counted(self.unacked_messages, 'message is', 'messages are')} unacknowledged"
        if self.delays_are_full:
            return f"{len(self._delayed.index)} delayed messages wait, which is as many as are remembered"
        reasons = {consumer.why_takes_nothing for consumer in self._consumers}
        return "consumers " + ", ".join(sorted(reasons - {""}))
