"""A persistent topic: a managed ledger with producers at one end and subscriptions at the other.

Source: PersistentTopic.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping

from magnetar.server.compaction.last_message import first_kept_at, last_kept, mark_delete_seen
from magnetar.server.compaction.topic_compaction import TopicCompaction
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.base_topic import BaseTopic, TopicState, is_reserved
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.last_message import LastMessage
from magnetar.server.topics.ledger_config_rules import ledger_config
from magnetar.server.topics.publish_times import BacklogAges, OldestMessage, first_published_at
from magnetar.server.topics.publishing.dedup_switch import DedupSwitch
from magnetar.server.topics.publishing.quota_gate import QuotaGate
from magnetar.server.topics.publishing.topic_producers import TopicProducers
from magnetar.server.topics.subscriptions.consumer_owner import SubscriptionCursor
from magnetar.server.topics.subscriptions.delayed_delivery import DelayedDelivery
from magnetar.server.topics.subscriptions.dispatch_limits import DispatchLimits
from magnetar.server.topics.subscriptions.dispatch_throttle_rules import PerSecond
from magnetar.server.topics.subscriptions.hole_filler import HoleFiller
from magnetar.server.topics.subscriptions.new_messages import NewMessages
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import PendingAckLogs
from magnetar.server.topics.subscriptions.seek_target import start_asked_by
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.subscriptions.subscription_settings import check_durability, follow, properties_of
from magnetar.server.topics.transactions.readable_log import CommittedLog, ReadableLog
from magnetar.server.topics.transactions.topic_transactions import TopicTransactions
from magnetar.server.topics.transactions.transaction_buffer import TransactionBuffer
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.entry_run import EntryRun
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import NotAllowed, PulsarError, ServiceNotReady, SubscriptionNotFound
from pulsar_proto.ids import EARLIEST, LATEST, Position, TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

log = logging.getLogger(__name__)


class Topic(BaseTopic):
    """A persistent topic. `TopicOpener.open` creates it and then calls `prepare`."""

    __slots__ = (
        "_changing_cursors",
        "_close_ledger",
        "_is_detached",
        "_last_message",
        "_on_lost",
        "backlog_ages",
        "base_config",
        "compaction",
        "deduplication",
        "delayed",
        "dispatch_limits",
        "hole_filler",
        "ledger",
        "new_messages",
        "own_properties",
        "pending_ack_logs",
        "publishing",
        "quota",
        "readable_log",
        "state",
        "subscriptions",
        "transaction_maker",
        "transactions",
    )

    def __init__(
        self,
        name: TopicName,
        ledger: ManagedLedger,
        settings: TopicSettings,
        *,
        new_producer_name: Callable[[], str],
        close_ledger: Callable[["Topic"], Awaitable[None]],
        on_lost: Callable[["Topic"], None],
        policies: EffectivePolicies | None = None,
    ) -> None:
        """`on_lost(topic)` is called when the log cannot be used any more; the callee closes the topic. `close_ledger`
        closes the logs of a topic. `policies` are the topic's first policies (see `BaseTopic`)."""
        super().__init__(name, settings, policies)
        self.ledger = ledger
        self.base_config = ledger.config
        """The managed ledger's settings before policies are applied; set by `TopicOpener.open`."""
        self.own_properties: Mapping[str, str] = ledger.properties
        """The topic's properties. The properties of a partition include those of the partitioned topic."""
        self.subscriptions: dict[str, Subscription] = {}
        self.publishing = TopicProducers(name.full, self, ledger, new_producer_name)
        self.quota = QuotaGate(self, OldestMessage(self))
        self.backlog_ages = BacklogAges(ledger)
        self.compaction: TopicCompaction | None = None
        """The topic's compaction, set by `TopicOpener.open`."""
        self.delayed = DelayedDelivery(self, self.policies.delayed_delivery_enabled)
        self.dispatch_limits = DispatchLimits(self)
        self.hole_filler: HoleFiller | None = None
        """Fills holes; None until the policies ask for it."""
        self._fill_holes(self.policies.fill_ack_holes_interval_seconds)
        self.deduplication = DedupSwitch(name.full, ledger, settings, self.publishing)
        self.pending_ack_logs: PendingAckLogs | None = None
        self.transactions: TransactionBuffer | None = None
        """The topic's transactions; None until there is one in the topic."""
        self.transaction_maker: TopicTransactions | None = None
        """Makes `transactions`; set by `TopicOpener.open` if the topic takes any."""
        self.readable_log: ReadableLog = ledger
        """The log as far as consumers may read it."""
        self._last_message: LastMessage | None = None
        self._is_detached = False
        self._close_ledger = close_ledger
        self._on_lost = on_lost
        self._changing_cursors: asyncio.Lock | None = None
        self.new_messages = NewMessages(self.subscriptions)
        ledger.on_append(self.new_messages.confirmed)
        for cursor_name, cursor in ledger.cursors.items():
            if not is_reserved(cursor_name):
                self.subscriptions[cursor_name] = Subscription(self, cursor_name, cursor)

    @property
    def is_terminated(self) -> bool:
        return self.ledger.terminated is not None

    @property
    def first_ledger_id(self) -> int:
        return self.ledger.first_position.ledger_id

    @property
    def stored_bytes(self) -> int:
        return self.ledger.total_size

    @property
    def backlog_entries(self) -> int:
        return sum(cursor.backlog for cursor in self.durable_cursors())

    @property
    def backlog_size(self) -> int:
        """Returns the estimated size of the slowest durable subscription's backlog, in bytes."""
        return max((cursor.backlog_size for cursor in self.durable_cursors()), default=0)

    def durable_cursors(self) -> list[Cursor]:
        """Returns the cursors of all durable subscriptions."""
        return [each.cursor for each in self.subscriptions.values() if each.cursor.durable]

    def use_transactions(self, transactions: TransactionBuffer) -> None:
        assert isinstance(self.readable_log, CommittedLog), "the topic takes no transactions"
        self.transactions, self.readable_log.transactions = transactions, transactions.transactions
        self._last_message = None

    def begin_transactions(self) -> TransactionBuffer | None:
        if self.transactions is None and self.transaction_maker is not None:
            self.use_transactions(self.transaction_maker.begun(self.name, self.ledger, is_open=self.is_open))
        return self.transactions

    def is_aborted(self, txn_id: TxnId) -> bool:
        return self.transactions is not None and self.transactions.is_aborted(txn_id)

    # --- policies ----------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Applies the policies and recovers deduplication. Called once, before a client connects, and after
        transactions were recovered. Raises ManagedLedgerError when the log cannot be read."""
        self.apply_send_policies()
        self.configure_ledger()
        await self.deduplication.begin(self.policies.deduplication_enabled)
        if self.compaction is not None and self.policies.compaction_threshold > 0:
            await self.compaction.hold_messages()

    def policies_changed(self, old: EffectivePolicies, new: EffectivePolicies) -> None:
        super().policies_changed(old, new)
        self.delayed.enable(new.delayed_delivery_enabled)
        self._fill_holes(new.fill_ack_holes_interval_seconds)
        self.configure_ledger()
        self.deduplication.follow(new.deduplication_enabled)
        if self.compaction is not None and new.compaction_threshold > 0:
            self.compaction.hold_messages_soon()

    def _fill_holes(self, interval_seconds: float) -> None:
        if self.hole_filler is None and interval_seconds > 0:
            self.hole_filler = HoleFiller(self.subscriptions.values)
        if self.hole_filler is not None:
            self.hole_filler.follow(interval_seconds)

    def configure_ledger(self) -> None:
        """Makes the managed ledger follow the policies and the broker's configuration."""
        config = ledger_config(self.base_config, self.policies)
        if config != self.ledger.config:
            self.ledger.configure(config)

    # --- producers and consumers -------------------------------------------------------------------------------------

    def check_takes_producers(self) -> None:
        self.quota.check()

    async def make_subscription(self, name: str) -> None:
        await self.create_subscription(name, EARLIEST)

    async def _subscription_for(self, command: pb.CommandSubscribe) -> Subscription:
        name = command.subscription
        existing = self.subscriptions.get(name)
        if existing is not None:
            check_durability(existing.cursor, durable=command.durable)
            await follow(existing.cursor, command)
            return existing
        if command.durable:
            if not self.policies.allow_auto_subscription_creation:
                raise SubscriptionNotFound(f"Subscription {name} does not exist")
            initial = EARLIEST if command.initialPosition == pb.CommandSubscribe.Earliest else LATEST
            properties = properties_of(command)
            if command.read_compacted and initial == EARLIEST:
                # The new cursor must stand before the first entry of a ledger, because only such a mark-delete position
                # shows later that the consumer has acknowledged nothing (`begins_in_the_past`).
                with storage_faults_told():
                    await self.ledger.open_ledger()
            subscription = await self.create_subscription(name, initial, properties)
            await follow(subscription.cursor, command)
        else:
            subscription = await self._new_reader(command)
        if command.start_message_rollback_duration_sec:
            try:
                await subscription.reset_to_time(now_ms() - command.start_message_rollback_duration_sec * 1000)
            except PulsarError as error:
                # As in PersistentTopic.resetSubscriptionCursor, the consumer begins at the subscription's old position.
                log.warning("%s: not rolled back: %s", subscription, error)
        return subscription

    async def _new_reader(self, command: pb.CommandSubscribe) -> Subscription:
        """Creates a subscription that ends when its last consumer leaves. Takes the lock under which durable
        subscriptions are created, because each name belongs to only one subscription. The subscription begins AT the
        message that the client names: a client that wants to begin after that message drops the message itself. If the
        client names a message within a batch, the subscription begins at the whole entry."""
        start = start_asked_by(command) or LATEST
        async with self._cursor_lock():
            existing = self.subscriptions.get(command.subscription)
            if existing is not None:
                check_durability(existing.cursor, durable=False)
                return existing
            self._check_open()
            self._check_may_add_subscription()  # PersistentTopic.getNonDurableSubscription
            return self._add_subscription(command.subscription, self.ledger.new_non_durable_cursor(start))

    def _cursor_lock(self) -> asyncio.Lock:
        """Returns the lock under which subscriptions are created and deleted, which most topics do not need."""
        if self._changing_cursors is None:
            self._changing_cursors = asyncio.Lock()
        return self._changing_cursors

    def _check_open(self) -> None:
        if not self.is_open:
            raise ServiceNotReady("Topic is temporarily unavailable")

    # --- subscriptions -----------------------------------------------------------------------------------------------

    async def create_subscription(
        self, name: str, initial: Position, properties: dict[str, str] | None = None
    ) -> Subscription:
        """Returns a new durable subscription, or the subscription of that name that another caller has created
        meanwhile. Raises NotAllowed when a reader's subscription has that name, and another PulsarError when the cursor
        cannot be created."""
        if is_reserved(name):
            raise NotAllowed(f"Subscription name {name} is reserved")
        async with self._cursor_lock():
            existing = self.subscriptions.get(name)
            if existing is not None:
                check_durability(existing.cursor, durable=True)
                return existing
            self._check_open()
            self._check_may_add_subscription()
            with storage_faults_told():
                cursor = await self.ledger.open_cursor(name, initial, properties or {})
            return self._add_subscription(name, cursor)

    def _add_subscription(self, name: str, cursor: Cursor) -> Subscription:
        subscription = self.subscriptions[name] = Subscription(self, name, cursor)
        log.info("%s: created at %s", subscription, cursor.mark_delete)
        return subscription

    async def delete_cursor(self, subscription: Subscription) -> None:
        """Deletes the cursor of a subscription that `Subscription.delete` has fenced, then removes the subscription
        from the topic. Raises ManagedLedgerError when the cursor cannot be deleted; nothing has changed then."""
        if subscription.cursor.durable:
            async with self._cursor_lock():
                await self.ledger.delete_cursor(subscription.name)
                self.forget(subscription)
        else:
            self.forget(subscription)

    def forget(self, subscription: Subscription) -> None:
        """Removes a subscription that has ended from the topic. Idempotent."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            self.dispatch_limits.forget(subscription.name)
            subscription.close()
            self._removed(subscription)
            if not subscription.cursor.durable:
                self.ledger.release(subscription.cursor)

    def published_per_second(self) -> PerSecond:
        counters = self.publishing.counters
        return PerSecond(counters.message_rate.value, counters.byte_rate.value)

    def obeying_delays(self) -> Iterator[SharedDispatcher]:
        """Yields the dispatchers that obey delays, of all subscriptions that have consumers."""
        for subscription in self.subscriptions.values():
            if subscription.consumers and isinstance(subscription.dispatcher, SharedDispatcher):
                yield subscription.dispatcher

    # --- messages ----------------------------------------------------------------------------------------------------

    @property
    def messages_of(self) -> Callable[[EntryRun], OutgoingMessages]:
        return self.new_messages.messages_of

    async def last_message_id(self) -> tuple[Position, int]:
        if self._last_message is None:
            self._last_message = LastMessage(self.ledger, self.transactions)
        return await self._last_message.find()

    async def last_message_id_compacted(
        self, asked: Position | None, cursor: SubscriptionCursor
    ) -> tuple[Position, int, Position]:
        last = await self.last_message_id()
        if self.compaction is not None:
            with storage_faults_told():
                last = await last_kept(self.ledger.label, self.compaction, last[0]) or last
        return *last, mark_delete_seen(asked, cursor, self.ledger.first_position)

    async def sought(self, position: Position, publish_time_ms: int | None) -> Position:
        """Returns where a consumer with `read_compacted` reads on after a seek that moves its cursor to `position`.
        Raises ManagedLedgerError when the log cannot be read."""
        if self.compaction is None or publish_time_ms is None:
            return position
        return await first_kept_at(self.ledger, self.compaction, publish_time_ms) or position

    async def first_published_at(self, publish_time_ms: int) -> Position:
        return await first_published_at(self.ledger, publish_time_ms)

    def roll_storage(self, elapsed_s: float) -> None:
        self.ledger.traffic.roll(elapsed_s, sum(cursor.changes for cursor in self.ledger.cursors.values()))

    # --- the whole topic ---------------------------------------------------------------------------------------------

    async def terminate(self) -> Position:
        """Terminates the topic. Returns the position of the last message; the position names a ledger even if the topic
        never had a message. Raises NotAllowed while transactions are open, because their ends could not be marked, and
        another PulsarError when the end of the topic cannot be stored."""
        if self.transactions is not None and (oldest := self.transactions.transactions.oldest()) is not None:
            raise NotAllowed(f"Transaction {oldest} is open in {self.name.full}: a topic ends after its transactions")
        with storage_faults_told():
            if self.ledger.terminated is None and self.ledger.last_confirmed.ledger_id < 0:
                await self.ledger.open_ledger()
            last = await self.ledger.terminate()
        log.info("%s: terminated at %s", self, last)
        self.publishing.disconnect_all()
        for subscription in self.subscriptions.values():
            subscription.tell_end_if_reached()
        return last

    def lost_ledger(self, error: ManagedLedgerError) -> None:
        if self.is_open:
            log.warning("%s: cannot go on, will be loaded anew: %s", self, error)
            self.state = TopicState.CLOSING
            self._on_lost(self)

    def detach(self) -> None:
        if self._is_detached:
            return
        self._is_detached, self.state = True, TopicState.CLOSING
        self.ledger.not_on_append(self.new_messages.confirmed)
        self.delayed.close()
        if self.hole_filler is not None:
            self.hole_filler.close()
        if self.transactions is not None:
            self.transactions.close()
        self.publishing.close()
        self.deduplication.close()
        for subscription in list(self.subscriptions.values()):
            subscription.close()

    async def close(self) -> None:
        self.detach()
        try:
            if self.compaction is not None:
                await self.compaction.close()
            await self._close_ledger(self)
        finally:
            self._become_closed()
