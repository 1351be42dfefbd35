"""Checks producers and consumers again after a namespace's permissions have changed, and disconnects clients that have
lost the permission. These clients reconnect, and are then refused with the reason.

Sources: PersistentTopic.onPoliciesUpdate, Producer.checkPermissionsAsync, Consumer.checkPermissionsAsync.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from magnetar.metadata.errors import MetadataError
from magnetar.server.process.turns import in_portions
from magnetar.server.security.authorizer import Authorizer, TenantMissingError
from magnetar.server.security.demands import OnTopic
from magnetar.server.security.operations import TopicOperation
from magnetar.server.security.principals import Principal

if TYPE_CHECKING:
    from magnetar.server.topics.base_topic import BaseTopic
    from magnetar.server.topics.broker_service import BrokerService
    from magnetar.server.topics.publishing.producer import Producer
    from magnetar.server.topics.subscriptions.consumer import Consumer

log = logging.getLogger(__name__)

PRODUCE = OnTopic(TopicOperation.PRODUCE)
CONSUME = OnTopic(TopicOperation.CONSUME)


class Spawn(Protocol):
    """The type of `Broker.spawn`, which runs work in a task that the broker owns."""

    def __call__(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]": ...


class PermissionRecheck:
    """Checks the producers and consumers of a namespace again. `namespace_changed` is called for every change of a
    namespace's record, but producers and consumers are checked only at the first call for the namespace and when the
    permissions differ from those at the last call."""

    def __init__(self, authorizer: Authorizer, service: "BrokerService", spawn: Spawn) -> None:
        self._authorizer = authorizer
        self._service = service
        self._spawn = spawn
        self._due: set[str] = set()

    def namespace_changed(self, namespace: str) -> None:
        if namespace not in self._due:
            self._due.add(namespace)
            self._spawn(self._judge_all(namespace))

    async def _judge_all(self, namespace: str) -> None:
        self._due.discard(namespace)
        try:
            if not await self._authorizer.permissions_changed(namespace):
                return
            async for judgement in in_portions(list(self._judgements(namespace))):
                await judgement()
        except MetadataError as error:
            log.warning("%s: who is connected cannot be judged anew: %s", namespace, error)

    def _judgements(self, namespace: str) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yields one function for each producer and each consumer of the namespace's topics. The function checks the
        permission of that producer or consumer, and disconnects a client that has lost the permission."""
        for topic in self._service.all_topics:
            if topic.name.namespace == namespace:
                yield from (partial(self._judge_producer, topic, producer) for producer in topic.producers.values())
                for subscription_name, subscription in topic.subscriptions.items():
                    for consumer in subscription.consumers:
                        yield partial(self._judge_consumer, topic, subscription_name, consumer)

    async def _judge_producer(self, topic: "BaseTopic", producer: "Producer") -> None:
        if await self._is_denied(producer, topic, PRODUCE, None) and not producer.is_closed:
            producer.disconnect()

    async def _judge_consumer(self, topic: "BaseTopic", subscription: str, consumer: "Consumer") -> None:
        if await self._is_denied(consumer, topic, CONSUME, subscription) and not consumer.is_closed:
            consumer.cnx.close_consumer(consumer.consumer_id)
            consumer.close()

    async def _is_denied(
        self, client: "Producer | Consumer", topic: "BaseTopic", demand: OnTopic, subscription: str | None
    ) -> bool:
        principal: Principal | None = getattr(client.cnx, "principal", None)
        if principal is None:
            return False
        name = topic.name
        try:
            denied = await self._authorizer.denied(
                principal,
                demand,
                tenant=name.tenant,
                namespace=name.namespace,
                topic=name,
                subscription=subscription,
            )
        except TenantMissingError:
            denied = "its tenant is gone"
        if denied is None:
            return False
        log.warning("%s: role %s is no longer allowed to: disconnected%s", client, principal, denied and f" ({denied})")
        return True
