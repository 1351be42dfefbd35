"""The dispatcher of a Key_Shared subscription: each key's messages go to one consumer, in order.

Every entry that is read goes to the consumer that owns its key, or waits in the replay queue. An entry waits because
its owner takes nothing now, because an earlier entry of the key waits, or because another consumer still holds entries
of the key (`key_order_rules` decides). Reading goes on past the entries that wait, for consumers of other keys, until
as many entries wait as the look-ahead limits allow.

Waiting entries that may be sent now are sent before new entries, in order of positions.

Sources: PersistentStickyKeyDispatcherMultipleConsumers, PIP-379.
"""

from collections.abc import Sequence

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.dispatch_source import DispatchSource, PlannedRead
from magnetar.server.topics.subscriptions.key_order_rules import KeyOrder
from magnetar.server.topics.subscriptions.key_shared_rules import KeySharedPolicy, SlotRange, Sticky, selector_for
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages, messages_of, unacknowledged
from magnetar.server.topics.subscriptions.redelivery import ReplayQueue
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from magnetar.storage.managed.entry_run import EntryRun
from pulsar_proto.counted import counted
from pulsar_proto.ids import Position

SHARED_OUT_MAX = 4
"""One read brings entries for at most this many consumers, up to dispatcherMaxReadBatchSize entries for each of
them."""

GAP_MAX = 16
"""When two waiting entries are at most this far apart, one read brings both of them, together with the unneeded entries
in between, because one read is cheaper than two."""


class KeySharedDispatcher(SharedDispatcher):
    """Sends each key's messages to the consumer that owns the key's slot. `order` keeps the keys in order."""

    def __init__(self, source: DispatchSource, policy: KeySharedPolicy) -> None:
        super().__init__(source)
        self.policy = policy
        self.order: KeyOrder[Consumer] = KeyOrder(
            selector_for(
                policy,
                consistent_hashing=self.settings.subscription_key_shared_use_consistent_hashing,
                points=self.settings.subscription_key_shared_consistent_hashing_replica_points,
            ),
            ordered=not policy.allows_disorder,
        )
        self._may_go_on = False
        """Whether an acknowledgement freed a slot that entries wait for."""
        self._ranges: dict[Consumer, list[SlotRange]] | None = None
        """Consumer -> the slots that it owns. Computed when stats ask for the slots; None until then, and after a
        change of consumers."""
        self.due_entries = ReplayQueue()
        """Delayed entries whose time has come. The keys of these entries are unknown until the entries have been
        read."""

    def add(self, consumer: Consumer) -> None:
        """Adds a consumer. Raises ConsumerAssignFault when there are no slots for the consumer."""
        self.order.add(consumer, consumer.name, consumer.hash_ranges, self._loop.time())
        self._ranges = None
        super().add(consumer)
        self._loop.call_soon(self.kick)  # entries of slots that had no owner may wait for the newcomer

    def remove(self, consumer: Consumer) -> None:
        super().remove(consumer)
        if not len(self._consumers):
            self.order.clear()
            self.due_entries.clear()
        self.order.remove(consumer, self._loop.time())
        self._ranges = None

    def rival_of(self, consumer: Consumer) -> Consumer | None:
        """Returns a consumer that has chosen some of the slots that `consumer` chooses, or None when there is no such
        consumer."""
        selector = self.order.selector
        return selector.rival(consumer.hash_ranges) if isinstance(selector, Sticky) else None

    def ranges_of(self, consumer: Consumer) -> list[SlotRange]:
        """Returns the slots that a consumer owns, for stats."""
        if self._ranges is None:
            self._ranges = self.order.selector.ranges()
        return self._ranges.get(consumer, [])

    # --- acknowledgements and redelivery -----------------------------------------------------------------------------

    def settle(
        self, consumer: Consumer, ledger_id: int, entry_id: int, remaining: int, *, withheld: bool = False
    ) -> None:
        super().settle(consumer, ledger_id, entry_id, remaining, withheld=withheld)
        if not remaining and self.order.forget(ledger_id, entry_id):
            self._may_go_on = True

    def settle_all(self, consumer: Consumer, ledger_id: int, entry_ids: list[int]) -> None:
        super().settle_all(consumer, ledger_id, entry_ids)
        if self.order.forget_all(ledger_id, entry_ids):
            self._may_go_on = True

    def settled(self) -> None:
        super().settled()
        if self._may_go_on:
            self._may_go_on = False
            self.kick()

    def _wait_again(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        super()._wait_again(ledger_id, entry_ids)
        self.order.given_back(ledger_id, entry_ids)

    def _became_due(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        self.due_entries.add(ledger_id, [each for each in entry_ids if not self.replay.contains(ledger_id, each)])

    # --- Dispatcher --------------------------------------------------------------------------------------------------

    def _room(self) -> int:
        if not self._has_replays and len(self.replay) >= self.look_ahead_max():
            return 0
        return super()._room()

    def _entries_max(self) -> int:
        """Returns how many entries one read may bring. The number is larger than for other types, because all consumers
        share the entries of one read."""
        return super()._entries_max() * min(SHARED_OUT_MAX, len(self._consumers))

    def look_ahead_max(self) -> int:
        """Returns how many entries may wait before reading stops."""
        of_consumer = self.settings.key_shared_look_ahead_msg_in_replay_threshold_per_consumer
        in_all = self.settings.key_shared_look_ahead_msg_in_replay_threshold_per_subscription
        limits = [limit for limit in (of_consumer * len(self._consumers), in_all) if limit > 0]
        return min(limits, default=len(self.replay) + 1)

    @property
    def _has_replays(self) -> bool:
        """Whether a waiting entry can be sent now, or a delayed entry whose time has come can be read."""
        if self.due_entries and len(self.replay) < self.look_ahead_max():
            return True
        return bool(self.replay) and self._first_replay() is not None

    def _first_replay(self) -> Position | None:
        """Returns the position of the first waiting entry that may be sent to a consumer which can take messages now,
        or None when there is no such entry."""
        able = []
        for consumer in self._consumers:
            if consumer.can_take:
                able.append(consumer)
            else:
                consumer.watch_writable()  # entries in the replay queue may wait for this consumer
        return self.order.first(able)

    def _next_replay(self, room: int) -> PlannedRead:
        first = self._first_replay() if self.replay else None
        if first is None:
            position, count = self.due_entries.first_run(room)
            return PlannedRead(position, count, True)
        span = min(room, self.settings.dispatcher_max_read_batch_size)
        return PlannedRead(first, self.replay.nearby(first, span, GAP_MAX), True)

    def _send_again(self, read: PlannedRead, run: EntryRun) -> None:
        ledger_id, first = read.position
        end = first + read.entries_max
        if self.due_entries.contains(ledger_id, first):
            self._send_due(read, run)
            return
        if not run.entries or run.ledger_id != ledger_id or run.first_entry_id >= end:
            self._drop(ledger_id, self.replay.within(ledger_id, first, end))
            return
        self._drop(ledger_id, self.replay.within(ledger_id, first, run.first_entry_id))
        end = min(end, run.first_entry_id + len(run.entries))
        room = {consumer: consumer.room for consumer in self._consumers if consumer.can_take}
        wanted = self.order.sendable(ledger_id, self.replay.within(ledger_id, run.first_entry_id, end), room)
        messages = unacknowledged(messages_of(run, wanted), 0, self.acks)
        if len(messages) < len(wanted):
            found = set(messages.entry_ids)
            self._drop(ledger_id, [entry_id for entry_id in wanted if entry_id not in found])
        plan = _Plan(self.unacked_messages, self.unacked_max)
        order, counts = self.order, messages.counts
        for index, entry_id in enumerate(messages.entry_ids):
            choice = order.may_take(ledger_id, entry_id)
            if choice is not None and plan.put(choice[0], index, counts[index], choice[1]):
                order.taken(ledger_id, entry_id, choice[1])
                plan.sent.append(entry_id)
        self.replay.discard(ledger_id, plan.sent)
        self._carry_out(plan, messages)

    def _send_due(self, read: PlannedRead, run: EntryRun) -> None:
        """Sends delayed entries whose time has come. Such entries were never sent before, so they are treated like new
        entries."""
        ledger_id, first = read.position
        end = first + read.entries_max
        if not run.entries or run.ledger_id != ledger_id or run.first_entry_id >= end:
            self.due_entries.discard(ledger_id, range(first, end))
            return
        end = min(end, run.first_entry_id + len(run.entries))
        wanted = self.due_entries.within(ledger_id, run.first_entry_id, end)
        self.due_entries.discard(ledger_id, range(first, end))
        messages = unacknowledged(messages_of(run, wanted), 0, self.acks)
        if messages.payloads:
            self._send(messages)

    def _send(self, messages: OutgoingMessages, again: bool = False) -> int:
        """Sends new entries. Entries that cannot be sent now wait in the replay queue, so this method always takes all
        entries."""
        ledger_id, entry_ids, counts = messages.ledger_id, messages.entry_ids, messages.counts
        plan = _Plan(self.unacked_messages, self.unacked_max)
        order = self.order
        waiting: list[int] = []
        for index, slot in enumerate(order.selector.slots_of(messages.key_hashes)):
            owner = order.route(slot)
            if owner is None or not plan.put(owner, index, counts[index], slot):
                order.wait(ledger_id, entry_ids[index], slot)
                waiting.append(entry_ids[index])
        if waiting:
            self.replay.add(ledger_id, waiting)
        self._carry_out(plan, messages)
        return len(messages)

    def _drop(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        super()._drop(ledger_id, entry_ids)
        for entry_id in entry_ids:
            self.order.forget(ledger_id, entry_id)

    def _carry_out(self, plan: "_Plan", messages: OutgoingMessages) -> None:
        """Sends each consumer its share. Accounts for all shares before it writes anything, because a write may close a
        connection, which removes its consumer."""
        ledger_id = messages.ledger_id
        parts: list[tuple[Consumer, OutgoingMessages]] = []
        for consumer, (indexes, slots) in plan.shares.items():
            part = messages.part(indexes)
            self.order.sent(consumer, ledger_id, part.entry_ids, slots)
            self.unacked_messages += consumer.take(part, 0, len(part))
            self._some_are_blocked |= consumer.blocked
            parts.append((consumer, part))
            if self.throttles:
                self._sent(part)
        self._block_if_full()
        redelivery_counts = self.redelivery_counts.of_ledger(ledger_id)
        for consumer, part in parts:
            if not consumer.is_closed:
                consumer.write(part, 0, len(part), redelivery_counts)

    def _why_nobody_takes(self) -> str:
        if len(self._consumers) and not self.blocked and self.replay:
            wait = counted(len(self.replay), "entry waits", "entries wait")
            names = sorted({consumer.name for consumer in self.order.holders_waited_for()})
            if names:
                return (
                    f"{wait}; {self.order.draining_slots} keys' hashes belong to other "
                    f"consumers now, but {', '.join(names[:10])} must acknowledge what they hold of them first"
                )
            if len(self.replay) >= self.look_ahead_max():
                return f"{wait} for consumers of their keys that take nothing now"
        return super()._why_nobody_takes()


class _Plan:
    """Plans which consumer gets which entries of one run (a group of consecutive entries), within the consumers'
    permits and limits."""

    __slots__ = ("_left", "_room", "sent", "shares")

    def __init__(self, unacked: int, unacked_max: int) -> None:
        self.shares: dict[Consumer, tuple[list[int], list[int]]] = {}
        """Consumer -> (indexes of its entries in the run, their slots)."""
        self.sent: list[int] = []
        self._room: dict[Consumer, int] = {}
        self._left = unacked_max - unacked if unacked_max else 2**62

    def put(self, consumer: Consumer, index: int, count: int, slot: int) -> bool:
        """Adds an entry of `count` messages to the consumer's share. Returns False when the consumer can take no
        more."""
        room = self._room.get(consumer)
        if room is None:
            room = consumer.room if consumer.can_take else 0
        if room <= 0 or self._left <= 0:
            self._room[consumer] = 0
            return False
        self._room[consumer] = room - count
        self._left -= count
        share = self.shares.get(consumer)
        if share is None:
            share = self.shares[consumer] = ([], [])
        share[0].append(index)
        share[1].append(slot)
        return True
