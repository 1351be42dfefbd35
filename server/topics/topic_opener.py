"""Makes a topic ready for use: opens a persistent topic's ledger with the configuration that its policies ask for, and
gives a topic of either domain the objects of the broker that the topic needs.

Source: BrokerService.createPersistentTopic.
"""

from collections.abc import Callable, Mapping
from functools import partial

from magnetar.server.compaction.topic_compaction import CompactionService, TopicCompaction
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.policies.policies import Policies
from magnetar.server.policies.policy_values import PublishRate
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.ledger_config_rules import ledger_config
from magnetar.server.topics.publishing.publish_limiter import PublishLimiter
from magnetar.server.topics.topic import Topic
from magnetar.server.topics.topic_schemas import TopicSchemas
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import NoSuchManagedLedger
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName


class TopicOpener:
    """Holds what all topics of the broker share. Lives on the event loop's thread."""

    def __init__(
        self,
        factory: ManagedLedgerFactory,
        settings: TopicSettings,
        policies: Policies,
        catalog: TopicCatalog,
        schemas: TopicSchemas,
        new_producer_name: Callable[[], str],
    ) -> None:
        self._factory = factory
        self._settings = settings
        self._policies = policies
        self._catalog = catalog
        self._schemas = schemas
        self._new_producer_name = new_producer_name
        self._compactions = CompactionService(
            factory.bookkeeper,
            factory.reaper.bury,
            factory.clock_ms,
            retain_null_key=settings.topic_compaction_retain_null_key,
            batch_bytes_max=settings.max_message_size,
        )
        self._publish_limiter: PublishLimiter | None = None

    def limit_publishing(self) -> None:
        """Begins to apply the broker's limit for publishing to all topics together. Called once, before topics are
        opened."""
        rate = PublishRate(
            self._settings.broker_publisher_throttling_max_message_rate,
            self._settings.broker_publisher_throttling_max_byte_rate,
        )
        self._publish_limiter = PublishLimiter(rate) if rate.is_limited else None

    async def open(self, name: TopicName, *, create: bool, on_lost: Callable[[Topic], None]) -> Topic:
        """Returns a persistent topic that is ready for use; for `on_lost` see `Topic`. Raises PulsarError:
        TopicNotFound when the topic has no ledger and `create` is not set."""
        with storage_faults_told():
            await self._policies.load(name)
            # The configuration has to be the right one from the first moment, because opening a ledger trims it.
            config = ledger_config(self._factory.config, self._policies.of(name))
            try:
                ledger = await self._factory.open(name.managed_ledger_name, config, create=create)
            except NoSuchManagedLedger as error:
                raise TopicNotFound(f"Topic {name.full} not found") from error
        topic = Topic(
            name,
            ledger,
            self._settings,
            new_producer_name=self._new_producer_name,
            close_ledger=partial(self._factory.close_ledger, name.managed_ledger_name),
            on_lost=on_lost,
            policies=self._policies.of(name, await self._properties_of(name, ledger)),
        )
        ledger.on_fenced(topic.lost_ledger)
        topic.compaction = TopicCompaction(name.full, ledger, self._compactions)
        topic.base_config = self._factory.config
        self.equip(topic)
        try:
            with storage_faults_told():
                await topic.prepare()
        except BaseException:
            await topic.close()
            raise
        await self.refresh_policies(topic)  # the policies may have changed while the ledger was opened
        return topic

    def equip(self, topic: BaseTopic) -> None:
        """Gives a new topic the broker's objects that it needs."""
        topic.schemas = self._schemas
        topic.broker_limiter = self._publish_limiter
        topic.apply_send_policies()

    async def refresh_policies(self, topic: Topic) -> None:
        """Computes the topic's policies anew, after its properties may have changed. Raises PulsarError."""
        topic.own_properties = await self._properties_of(topic.name, topic.ledger)
        topic.set_policies(self._policies.of(topic.name, topic.own_properties))

    async def _properties_of(self, name: TopicName, ledger: ManagedLedger) -> Mapping[str, str]:
        """Returns the topic's properties. Those of a partition include the properties of the partitioned topic."""
        if not name.is_partition:
            return ledger.properties
        with storage_faults_told():
            base = await self._catalog.partitioned.get(name.base)
        return ledger.properties if base is None else {**(base.properties or {}), **ledger.properties}
