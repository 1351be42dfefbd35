"""Makes a topic ready for use: opens a persistent topic's ledger with the configuration that its policies ask for, and
gives a persistent or non-persistent topic the objects of the broker that the topic uses.

Source: BrokerService.createPersistentTopic.
"""

from collections.abc import Callable, Mapping

from magnetar.metadata.store import MetadataStore
from magnetar.server.compaction.topic_compaction import CompactionService, TopicCompaction
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.policies.policies import Policies
from magnetar.server.policies.policy_values import PublishRate
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.bookie_affinity import BookieAffinity
from magnetar.server.topics.ledger_config_rules import ledger_config
from magnetar.server.topics.publishing.publish_limiter import PublishLimiter
from magnetar.server.topics.subscriptions.acks_in_transactions import close_pending_acks, recover_pending_acks
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import PendingAckLogs
from magnetar.server.topics.topic import Topic
from magnetar.server.topics.topic_schemas import TopicSchemas
from magnetar.server.topics.transaction_recovery import recover_transactions
from magnetar.server.topics.transactions.topic_transactions import TopicTransactions
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import NoSuchManagedLedger
from pulsar_proto.errors import NotAllowed, TopicNotFound
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic, is_transaction_internal


class TopicOpener:
    """Opens topics, and holds the objects that all topics of the broker share. Every method is called on the event
    loop's thread."""

    def __init__(
        self,
        factory: ManagedLedgerFactory,
        metadata: MetadataStore,
        settings: TopicSettings,
        policies: Policies,
        catalog: TopicCatalog,
        schemas: TopicSchemas,
        new_producer_name: Callable[[], str],
        transactions: TopicTransactions | None,
    ) -> None:
        """`transactions` is None while transactions are switched off."""
        self._factory = factory
        self._settings = settings
        self._policies = policies
        self._catalog = catalog
        self._schemas = schemas
        self._affinity = BookieAffinity(metadata, settings)
        self._new_producer_name = new_producer_name
        self._transactions = transactions
        self._pending_ack_logs = PendingAckLogs(factory, None if transactions is None else transactions.support)
        self._compactions = CompactionService(
            factory.bookkeeper,
            factory.reaper.bury,
            factory.clock_ms,
            retain_null_key=settings.topic_compaction_retain_null_key,
            batch_bytes_max=settings.max_message_size,
        )
        self._publish_limiter: PublishLimiter | None = None

    def start(self) -> None:
        """Prepares the objects that all topics share: begins to watch the affinity groups of bookies, and applies the
        broker's publish limit. Called once, before topics are opened."""
        self._affinity.start()
        self.limit_publishing()

    def close(self) -> None:
        self._affinity.close()

    def limit_publishing(self) -> None:
        """Begins to apply the broker's limit for publishing to all topics together. Called before topics are opened,
        and again after the limit was changed; the caller then calls `equip` to give each topic the new limit."""
        rate = PublishRate(
            self._settings.broker_publisher_throttling_max_message_rate,
            self._settings.broker_publisher_throttling_max_byte_rate,
        )
        old = self._publish_limiter
        if old is None or old.rate != rate:
            self._publish_limiter = PublishLimiter(rate) if rate.is_limited else None
            if old is not None:
                old.close()

    async def open(self, name: TopicName, *, create: bool, on_lost: Callable[[Topic], None]) -> Topic:
        """Returns a persistent topic that is ready for use; for `on_lost` see `Topic`. Raises TopicNotFound when the
        topic has no managed ledger and `create` is not set, NotAllowed for a name that no topic may have, and another
        PulsarError when the topic cannot be opened."""
        if is_transaction_internal(name):
            raise NotAllowed(f"Can not create transaction system topic {name.full}")
        with storage_faults_told():
            await self._policies.load(name)
            # The right configuration is needed from the first moment, because a ledger is trimmed when it is opened.
            policies = self._policies.of(name)
            config = ledger_config(self._factory.config, policies)
            try:
                ledger = await self._factory.open(name.managed_ledger_name, config, create=create)
            except NoSuchManagedLedger as error:
                raise TopicNotFound(f"Topic {name.full} not found") from error

        properties = await self._properties_of(name, ledger)
        topic = Topic(
            name,
            ledger,
            self._settings,
            new_producer_name=self._new_producer_name,
            close_ledger=self._close_ledgers,
            on_lost=on_lost,
            policies=self._policies.of(name, properties) if properties else policies,
        )
        ledger.on_fenced(topic.lost_ledger)
        topic.compaction = TopicCompaction(name.full, ledger, self._compactions)
        topic.base_config = self._factory.config
        if not is_system_topic(name):
            topic.pending_ack_logs = self._pending_ack_logs
        self._give(topic)  # `prepare` applies the policies for SENDs
        try:
            with storage_faults_told():
                await self._affinity.follow(topic)
                if self._transactions is not None:
                    await recover_transactions(topic, self._transactions)
                await topic.prepare()
                await recover_pending_acks(topic, topic.subscriptions.values())
        except BaseException:
            await topic.close()
            raise
        await self.refresh_policies(topic)  # the policies may have changed while the ledger was opened
        return topic

    async def _close_ledgers(self, topic: Topic) -> None:
        await close_pending_acks(topic.subscriptions.values())
        await self._factory.close_ledger(topic.name.managed_ledger_name)

    def equip(self, topic: BaseTopic) -> None:
        """Gives a topic the objects of the broker that the topic uses, and makes its checks for SENDs follow them."""
        self._give(topic)
        topic.apply_send_policies()

    def _give(self, topic: BaseTopic) -> None:
        topic.schemas = self._schemas
        if topic.broker_limiter is not None and topic.broker_limiter is not self._publish_limiter:
            topic.publishing.forget(topic.broker_limiter)
        topic.broker_limiter = self._publish_limiter

    async def refresh_policies(self, topic: Topic) -> None:
        """Computes the topic's policies anew, after the topic's properties may have changed. Raises PulsarError when
        the metadata cannot be read."""
        topic.own_properties = await self._properties_of(topic.name, topic.ledger)
        topic.set_policies(self._policies.of(topic.name, topic.own_properties))

    async def _properties_of(self, name: TopicName, ledger: ManagedLedger) -> Mapping[str, str]:
        """Returns the topic's properties. The properties of a partition include those of the partitioned topic."""
        if not name.is_partition:
            return ledger.properties
        with storage_faults_told():
            base = await self._catalog.partitioned.get(name.base)
        return ledger.properties if base is None else {**(base.properties or {}), **ledger.properties}
