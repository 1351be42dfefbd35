"""Creates and keeps the non-persistent topics of this broker. A non-persistent topic exists only in this broker's
memory and is created at its first use.

Source: BrokerService.createNonPersistentTopic.
"""

import logging
from collections.abc import Callable

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.namespaces.ownership import Ownership
from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.policies.policies import Policies
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.non_persistent.topic import NonPersistentTopic
from pulsar_proto.errors import NotAllowed, TopicNotFound
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)


class NonPersistentTopics:
    """The non-persistent topics that are loaded. Every method is called on the event loop's thread."""

    def __init__(
        self,
        settings: TopicSettings,
        policies: Policies,
        catalog: TopicCatalog,
        ownership: Ownership,
        new_producer_name: Callable[[], str],
        prepare: Callable[[NonPersistentTopic], None],
    ) -> None:
        """`prepare(topic)` gives a new topic the objects of the broker that the topic uses."""
        self.by_name: dict[str, NonPersistentTopic] = {}
        """Full name -> topic, for the loaded topics."""
        self._settings = settings
        self._policies = policies
        self._catalog = catalog
        self._ownership = ownership
        self._new_producer_name = new_producer_name
        self._prepare = prepare

    async def get(self, name: TopicName, *, create: bool) -> NonPersistentTopic:
        """Returns the topic, and creates a missing topic if `create` is set. Raises TopicNotFound when the topic is
        missing and `create` is not set or when the namespace does not exist, NotAllowed when the namespace's rules
        forbid the topic, and ServiceNotReady when another broker serves the topic."""
        topic = self.by_name.get(name.full)
        if topic is not None:
            return topic
        if not self._settings.enable_non_persistent_topics:
            raise NotAllowed("Broker is unable to load non-persistent topic")
        await self._catalog.check_namespace(name.namespace)
        await self._ownership.check(name)
        if not create:
            raise TopicNotFound(f"Topic {name.full} not found")
        await self._policies.load(name)
        async with self._catalog.creating(name):
            if name.full not in self.by_name:
                await self._catalog.check_room(name)
            return self.by_name.get(name.full) or self._create(name)  # another caller may have created it meanwhile

    def _create(self, name: TopicName) -> NonPersistentTopic:
        self._ownership.check_now(name)  # the bundle may have been lost while the caller waited
        topic = NonPersistentTopic(
            name,
            self._settings,
            new_producer_name=self._new_producer_name,
            policies=self._policies.of(name, {}),
        )
        self._prepare(topic)
        self.by_name[name.full] = topic
        log.info("%s: created", topic)
        return topic

    def policies_changed(self, namespace: str) -> None:
        """Applies changed policies to the loaded topics of a namespace."""
        for topic in list(self.by_name.values()):
            if topic.name.namespace == namespace:
                topic.set_policies(self._policies.of(topic.name, {}))

    async def close(self, topic: BaseTopic) -> None:
        """Ends the topic. When its clients reconnect, the topic is created again. Has no effect for a topic that is not
        loaded."""
        if self.by_name.get(topic.name.full) is topic:
            del self.by_name[topic.name.full]
            await topic.close()

    async def delete(self, name: TopicName) -> None:
        """Ends the topic of that name. Raises TopicNotFound when it is not loaded."""
        topic = self.by_name.get(name.full)
        if topic is None:
            raise TopicNotFound(f"Topic {name.full} not found")
        await self.close(topic)
        log.info("%s: deleted", topic)

    async def close_all(self) -> None:
        for topic in list(self.by_name.values()):
            await self.close(topic)
