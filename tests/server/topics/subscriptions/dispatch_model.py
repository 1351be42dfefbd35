"""A model of one subscription as its clients see it, and the claims that every history must keep.

1. A message that was acknowledged is not delivered again. Of a batch only the rest is delivered, and the client is
   told which indexes are left.
2. A message is delivered only for a permit, and an entry uses up as many permits as messages are left in it.
3. One active consumer gets every message that is not acknowledged, in order; after a rewind it starts again at the
   first of them.
4. On a Shared subscription one consumer at a time has a message, which says how often its redelivery was asked for.
5. While a consumer can take messages, none waits: each was sent, or a read is under way.
6. What the broker counts as unacknowledged is what the clients hold.
7. On a Key_Shared subscription a message goes to the owner of its key, while no other consumer holds messages of the
   key, and after all earlier ones of the key that are not acknowledged, unless the same consumer holds those. Delayed
   messages come when they are due.
8. On a Shared or Key_Shared subscription a delayed message comes when it is due, neither before nor after.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.key_shared_dispatcher import KeySharedDispatcher
from magnetar.server.topics.subscriptions.key_shared_rules import KeySharedPolicy, hash_of
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from magnetar.server.topics.subscriptions.single_active_dispatcher import SingleActiveDispatcher
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, Received, Scene, payload, settle
from tests.storage.ledger.virtual_loop import VirtualLoop

T = TypeVar("T")

KEYS = (b"one", b"two", b"three", b"four", b"five")
EVERYTHING = "last"
"""The name of the consumer with sticky ranges that takes every range that is free."""
RANGES = ((0, 20_000), (20_001, 50_000), (50_001, 65_535))
"""The ranges that the three consumers with sticky ranges choose."""


class Client:
    """The application behind one consumer."""

    def __init__(self, cnx: FakeConnection, consumer: Consumer) -> None:
        self.cnx = cnx
        self.consumer = consumer
        self.permits = 0
        self.held: dict[Position, int] = {}
        """The messages that were delivered and neither acknowledged nor given back; the bits are the batch indexes that
        are left."""


class Model:
    def __init__(self, sub_type: str, key_shared: KeySharedPolicy | None = None, **settings: Any) -> None:
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        self.sub_type = sub_type
        self.key_shared = key_shared
        self.settings = settings
        self.scene = self.do(self._make_scene())
        self.scene.topic.delayed.clock_ms = lambda: self.now_ms
        self.clients: list[Client] = []
        self.positions: list[Position] = []
        self.batch: dict[Position, int] = {}
        self.left: dict[Position, int] = {}
        """The messages that are not acknowledged; the bits are the batch indexes that are left."""
        self.keys: dict[Position, bytes] = {}
        self.due_ms: dict[Position, int] = {}
        """When each delayed message is due."""
        self.asked_again: dict[Position, int] = {}
        self.last: Position | None = None
        """With a single active consumer: the message that was delivered last since a rewind, if any."""
        self._active: Consumer | None = None
        self._was_switching = False

    async def _make_scene(self) -> Scene:
        return Scene(**self.settings)

    def do(self, program: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(program)

    def call(self, function: Callable[..., object], *arguments: Any, **named: Any) -> None:
        """Calls the function on the loop, as a connection does."""

        async def call() -> None:
            function(*arguments, **named)

        self.do(call())

    def close(self) -> None:
        self.loop.run_until_complete(self.scene.topic.close())
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(settle())
        self.loop.close()
        asyncio.set_event_loop(None)

    @property
    def is_shared(self) -> bool:
        return self.sub_type in ("Shared", "Key_Shared")

    @property
    def dispatcher(self) -> SharedDispatcher | SingleActiveDispatcher | None:
        subscription = self.scene.topic.subscriptions.get("s")
        dispatcher = None if subscription is None else subscription.dispatcher
        assert dispatcher is None or isinstance(dispatcher, SharedDispatcher | SingleActiveDispatcher)
        return dispatcher

    # ---- what happens

    @property
    def now_ms(self) -> int:
        return int(self.loop.time() * 1000)

    def publish(self, sizes: list[int], delay_ms: int = 0, *, chunked: bool = False) -> None:
        """Publishes one group. A size of 0 is a message that is no batch. With a delay every other message is delayed;
        with `chunked` they are the chunks of one message."""
        ledger = self.scene.ledger
        payloads = []
        for offset, size in enumerate(sizes):
            position = Position(ledger.ledgers.current_id, ledger.ledgers.current_entries + offset)
            self.positions.append(position)
            self.batch[position] = max(size, 1)
            self.left[position] = (1 << max(size, 1)) - 1
            key = self.keys[position] = KEYS[len(self.positions) * 7 // 3 % len(KEYS)]
            fields: dict[str, Any] = {"ordering_key": key}
            if delay_ms and offset % 2 == 0:
                fields["deliver_at_time"] = self.due_ms[position] = self.now_ms + delay_ms
            if chunked:
                uuid = f"message {len(self.positions) - offset}"
                fields |= {"uuid": uuid, "num_chunks_from_msg": len(sizes), "chunk_id": offset}
            payloads.append(payload(b"%d:%d" % position, batch=size, **fields))
        ledger.append_now(payloads)
        self.call(self.scene.topic.new_messages.confirmed)

    async def subscribe(self, name: str, priority: int) -> None:
        cnx = FakeConnection(f"/{len(self.clients)}")
        fields: dict[str, Any] = {}
        if self.key_shared is not None:
            fields["keySharedMeta"] = meta = pb.KeySharedMeta(
                keySharedMode=pb.STICKY if self.key_shared.is_sticky else pb.AUTO_SPLIT,
                allowOutOfOrderDelivery=self.key_shared.allows_disorder,
            )
            if self.key_shared.is_sticky:
                taken = [each for client in self.clients for each in client.consumer.hash_ranges]
                free = [each for each in RANGES if each not in taken]
                meta.hashRanges.extend(
                    pb.IntRange(start=start, end=end) for start, end in (free if name == EVERYTHING else free[:1])
                )
        consumer = await self.scene.consumer(cnx, self.sub_type, consumer_name=name, priority_level=priority, **fields)
        self.clients.append(Client(cnx, consumer))

    def disconnect(self, client: Client) -> None:
        self.clients.remove(client)
        self.call(client.cnx.close, "gone")
        if not self.clients:
            self.asked_again.clear()

    def acknowledged(self, position: Position, mask: int) -> None:
        """Records an acknowledgement after which only the indexes in `mask` are left of the message."""
        left = self.left.get(position, 0) & mask
        if left:
            self.left[position] = left
        else:
            self.left.pop(position, None)
            self.asked_again.pop(position, None)
        for client in self.clients:
            if position in client.held:
                if left:
                    client.held[position] = left
                else:
                    del client.held[position]

    def given_back(self, client: Client, positions: list[Position]) -> None:
        """Records a REDELIVER: of the listed messages on a Shared subscription, otherwise of all."""
        if not self.is_shared:
            if client.consumer is self._active:
                self.last = None
            return
        for position in positions or list(client.held):
            if client.held.pop(position, None) is not None:
                self.asked_again[position] = self.asked_again.get(position, 0) + 1

    def moved_to(self, position: Position) -> None:
        """Records a SEEK, which disconnects all consumers."""
        self.clients.clear()
        self.asked_again.clear()
        self.last = None
        self.left = {
            each: (1 << self.batch[each]) - 1 for each in self.positions[bisect_left(self.positions, position) :]
        }

    # ---- what must be

    def check(self) -> None:
        """Checks the claims at rest: everything has been done that can be done without another event from outside."""
        self.do(settle())
        self._note_rewind()
        for client in self.clients:
            for received in client.cnx.messages:
                self._delivered(client, received)
            client.cnx.forget()
        self._check_counts()
        self._check_nothing_waits()

    def _note_rewind(self) -> None:
        """Notes that the active consumer has changed. When such a change is over, delivery begins at the first message
        that is not acknowledged."""
        dispatcher = self.dispatcher
        if isinstance(dispatcher, SingleActiveDispatcher):
            switching = dispatcher._switching is not None
            active = None if switching else dispatcher.active
            if active is not self._active or (self._was_switching and not switching):
                self.last = None
            self._active, self._was_switching = active, switching

    def _delivered(self, client: Client, received: Received) -> None:
        position = received.position
        assert position in self.left, f"{position} was acknowledged"
        left = self.left[position]
        assert received.body == b"%d:%d" % position
        everything = (1 << self.batch[position]) - 1
        assert (received.ack_set or (everything,)) == (left,), position
        assert client.permits > 0, f"{position} came without a permit"
        client.permits -= left.bit_count()
        if self.is_shared:
            assert self.due_ms.get(position, 0) <= self.now_ms, f"{position} came too early"
            holders = [each for each in self.clients if position in each.held]
            assert not holders, f"{position} is out already"
            assert received.redelivery_count == self.asked_again.get(position, 0)
            if self.key_shared is not None:
                self._delivered_by_key(client, position)
            client.held[position] = left
        else:
            self._delivered_in_order(position)
            assert received.redelivery_count == 0

    def _delivered_by_key(self, client: Client, position: Position) -> None:
        dispatcher = self.dispatcher
        assert isinstance(dispatcher, KeySharedDispatcher)
        assert dispatcher.order.selector.owner(self.slot(position)) is client.consumer
        if dispatcher.policy.allows_disorder:
            return
        same = [each for each in self.left if self.keys[each] == self.keys[position]]
        assert not [each for other in self.clients if other is not client for each in same if each in other.held]
        earlier = [each for each in same if each < position and each not in self.due_ms]
        assert all(each in client.held for each in earlier), f"{position} came before one of {earlier}"

    def slot(self, position: Position) -> int:
        assert isinstance(self.dispatcher, KeySharedDispatcher)
        return self.dispatcher.order.selector.slot_of(hash_of(self.keys[position]))

    def _delivered_in_order(self, position: Position) -> None:
        unacked = [each for each in self.positions if each in self.left]
        start = 0 if self.last is None else bisect_left(unacked, Position(self.last.ledger_id, self.last.entry_id + 1))
        expected = unacked[start] if start < len(unacked) else None
        assert position == expected, f"{position} came instead of {expected}"
        self.last = position

    def _check_counts(self) -> None:
        for client in self.clients:
            consumer = client.consumer
            assert consumer.permits + consumer._blocked_permits == client.permits
            if self.is_shared:
                assert consumer.unacked_messages == sum(mask.bit_count() for mask in client.held.values())
                limit = self.scene.settings.max_unacked_messages_per_consumer
                assert not consumer.blocked or consumer.unacked_messages > limit // 2
        dispatcher = self.dispatcher
        if isinstance(dispatcher, SharedDispatcher):
            assert dispatcher.unacked_messages == sum(client.consumer.unacked_messages for client in self.clients)
            limit = self.scene.settings.max_unacked_messages_per_subscription
            assert not dispatcher.blocked or dispatcher.unacked_messages >= limit // 2

    def _check_nothing_waits(self) -> None:
        dispatcher = self.dispatcher
        if dispatcher is None:
            return
        able = [client for client in self.clients if client.consumer.can_take]
        if isinstance(dispatcher, KeySharedDispatcher):
            waiting = self._sendable(dispatcher) if able and not dispatcher.blocked else set()
        elif isinstance(dispatcher, SharedDispatcher):
            out = {position for client in self.clients for position in client.held}
            for_owner = {
                Position(ledger_id, entry_id)
                for consumer, queue in dispatcher.chunks.waiting.items()
                if not consumer.can_take
                for ledger_id in queue._ledgers
                for entry_id in queue._ledgers[ledger_id]
            }
            waiting = self._due() - out - for_owner if able and not dispatcher.blocked else set()
        else:
            active = [client for client in able if client.consumer is dispatcher.active]
            last = self.last or Position(-1, -1)
            waiting = {each for each in self.left if each > last} if active and not dispatcher._switching else set()
        if waiting:
            assert dispatcher.is_reading or dispatcher._retry, f"{sorted(waiting)} wait: {dispatcher.why_idle()}"

    def _due(self) -> set[Position]:
        """Returns the messages that are left and due. The timer may notice two milliseconds late."""
        return {each for each in self.left if self.due_ms.get(each, 0) <= self.now_ms - 2}

    def _sendable(self, dispatcher: KeySharedDispatcher) -> set[Position]:
        """Returns the messages that wait and whose key allows them to be sent now. Unread messages count too, unless
        the dispatcher holds as many waiting ones as it may. The owner of a delayed message is determined when it is
        due."""
        holder = {self.keys[each]: client.consumer for client in self.clients for each in client.held}
        out = {position for client in self.clients for position in client.held}
        waits: set[bytes] = set()
        found: set[Position] = set()
        reads_ahead = len(dispatcher.replay) < dispatcher.look_ahead_max()
        due = self._due()
        for position in (each for each in self.positions if each in due and each not in out):
            key = self.keys[position]
            routed = dispatcher.replay.contains(*position)
            if not routed and (position >= dispatcher.read_position or position in self.due_ms):
                if reads_ahead:
                    found.add(position)
                continue
            owner = dispatcher.order.selector.owner(self.slot(position))
            if owner is None or not owner.can_take:
                waits.add(key)
            elif dispatcher.policy.allows_disorder or (key not in waits and holder.get(key, owner) is owner):
                found.add(position)
        return found
