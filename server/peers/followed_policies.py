"""Keeps the policies of single topics in a cluster. A broker follows the events of each namespace of which it owns
bundles, as long as it owns at least one. The owner of a topic writes the events of this topic.

An event takes effect on this broker once the broker has read the event back, so that all brokers see one order of
events. When the broker that has `__change_events` is lost, this broker looks for the next owner at once, because loads
of topics may be waiting for the events.

Source: SystemTopicBasedTopicPoliciesService (addOwnedNamespaceBundleAsync, removeOwnedNamespaceBundleAsync).
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping
from copy import deepcopy
from typing import Any, Protocol

from magnetar.metadata import paths
from magnetar.metadata.store import CancelWatch, EventType, MetadataStore, RecordEvent, SessionEvent
from magnetar.server.namespaces.bundle_name import BundleName, heartbeat_broker
from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.peers.events_writer import EventsWriter
from magnetar.server.peers.followed_namespace import FollowedNamespace, FollowState
from magnetar.server.peers.peer_client import PeerClient
from magnetar.server.peers.peer_errors import PeerError
from magnetar.server.policies.event_table import topic_of
from magnetar.server.policies.policies import SYSTEM_NAMESPACE
from magnetar.server.policies.policy_events import key_of
from magnetar.server.policies.topic_policies_service import TopicPoliciesChange, TopicPoliciesService
from magnetar.server.schema.schema_registry import SchemaRegistry
from pulsar_proto.errors import MetadataFault, ServiceNotReady
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)

LOAD_SECONDS = 30.0
"""How long a topic's load waits for the policies. After that the client gets an error that makes it try again."""
WRITE_SECONDS = 30.0
"""How long a change of policies waits until its event is stored, and after that until the event was read back."""
LOOKS_AT_ONCE = 64
"""How many namespaces may look up their topics of events in the metadata store at the same time. After a lost
connection all namespaces do so."""
SWEEP_SECONDS = 60.0
"""How often the broker stops following namespaces of which it owns no bundle, and closes unused producers. The broker
follows a namespace of which it owns no bundle after an administrator has asked for its policies."""


class OwnedBundles(Protocol):
    """The methods of `namespaces.ownership.Ownership` that this module uses."""

    def owned_bundles(self) -> list[BundleName]: ...

    def on_gained(self, listener: Callable[[BundleName], None]) -> None: ...

    def on_lost(self, listener: Callable[[BundleName], None]) -> None: ...


class _Followed:
    """A followed namespace, its writer of events, and the functions that end the watches of its records."""

    __slots__ = ("cancels", "namespace", "writer")

    def __init__(self, namespace: FollowedNamespace, writer: EventsWriter, cancels: list[CancelWatch]) -> None:
        self.namespace = namespace
        self.writer = writer
        self.cancels = cancels

    async def close(self) -> None:
        for cancel in self.cancels:
            cancel()
        await self.namespace.close()
        await self.writer.close()


class FollowedPolicies(TopicPoliciesService):
    """The `TopicPoliciesService` of a broker of a cluster. One object serves the process. All calls are made on the
    loop's thread."""

    def __init__(
        self,
        client: PeerClient,
        store: MetadataStore,
        catalog: TopicCatalog,
        schemas: SchemaRegistry,
        ownership: OwnedBundles,
        *,
        cluster: str,
        on_change: Callable[[TopicName], None],
        rng: random.Random | None = None,
    ) -> None:
        """`on_change(topic)` is called after any broker has changed a topic's policies."""
        self._client = client
        self._store = store
        self._catalog = catalog
        self._schemas = schemas
        self._ownership = ownership
        self._cluster = cluster
        self._on_change = on_change
        self._rng = rng or random.Random()
        self._looks = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._followed: dict[str, _Followed] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._cancels: list[CancelWatch] = []
        self._is_closed = False

    def start(self) -> None:
        """Begins to follow the namespaces of which this broker owns bundles. Called once."""
        self._ownership.on_gained(self._gained)
        self._ownership.on_lost(self._lost)
        self._cancels = [
            self._store.watch(paths.NAMESPACE_OWNERS, self._owner_changed, recursive=True),
            self._store.on_session(self._session_changed),
        ]
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep_unowned)
        for bundle in self._ownership.owned_bundles():
            self._gained(bundle)

    async def close(self) -> None:
        """Ends all reading. A second call has no further effect."""
        self._is_closed = True
        for cancel in self._cancels:
            cancel()
        self._cancels = []
        if self._sweep is not None:
            self._sweep.cancel()
        for namespace in list(self._followed):
            self._drop(namespace)
        if self._closing:
            await asyncio.wait(self._closing)

    # --- TopicPoliciesService ----------------------------------------------------------------------------------------

    async def load(self, namespace: str) -> None:
        if is_without_policies(namespace):
            return
        while True:
            followed = self._follow(namespace)
            try:
                async with asyncio.timeout(LOAD_SECONDS):
                    await followed.namespace.ready()
            except TimeoutError:
                text = f"The policies of the topics in {namespace} are not known yet"
                raise ServiceNotReady(text) from None
            if followed.namespace.state is not FollowState.CLOSED:
                return
            # The last bundle of the namespace went away meanwhile, and this caller still needs the policies.

    def get(self, topic: TopicName, *, is_global: bool = False) -> Mapping[str, Any]:
        followed = self._followed.get(topic.namespace)
        return {} if followed is None else followed.namespace.policies(key_of(topic, is_global=is_global))

    async def update(self, topic: TopicName, change: TopicPoliciesChange, *, is_global: bool = False) -> None:
        await self.load(topic.namespace)
        followed = self._follow(topic.namespace)
        async with followed.namespace.changing:
            policies = deepcopy(dict(followed.namespace.policies(key_of(topic, is_global=is_global))))
            change(policies)
            await self._write(followed, topic, policies, is_global)

    async def delete(self, topic: TopicName) -> None:
        if is_without_policies(topic.namespace):
            return
        await self.load(topic.namespace)
        followed = self._follow(topic.namespace)
        async with followed.namespace.changing:
            for is_global in (False, True):
                if followed.namespace.policies(key_of(topic, is_global=is_global)):
                    await self._write(followed, topic, None, is_global)

    def forget(self, namespace: str) -> None:
        """Forgets the policies of a namespace. If this broker owns bundles of the namespace, the policies are read anew
        instead, because the namespace's loaded topics need later changes, too."""
        if self._owns_any(namespace) and namespace in self._followed and not self._is_closed:
            self._followed[namespace].namespace.look_again()
            return
        self._drop(namespace)

    def _drop(self, namespace: str) -> None:
        followed = self._followed.pop(namespace, None)
        if followed is not None:
            self._in_background(followed.close())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _write(
        self, followed: _Followed, topic: TopicName, policies: Mapping[str, Any] | None, is_global: bool
    ) -> None:
        """Writes an event, and returns once this broker has read the event back. Raises PulsarError on failure; the
        event may be stored nevertheless."""
        try:
            where, place = await followed.writer.write(
                followed.namespace.table, topic, policies, is_global=is_global, deadline_seconds=WRITE_SECONDS
            )
            followed.namespace.look_again()  # the event may be the first one, which creates the topic
            async with asyncio.timeout(WRITE_SECONDS):
                await followed.namespace.applied(where, place)
        except (PeerError, TimeoutError) as error:
            raise MetadataFault(f"Failed to change the policies of {topic.full}: {error or 'no answer'}") from error

    # --- which namespaces are followed -------------------------------------------------------------------------------

    def _follow(self, namespace: str) -> _Followed:
        known = self._followed.get(namespace)
        if known is not None:
            return known
        if self._is_closed:
            raise ServiceNotReady("The broker is shutting down")
        made = FollowedNamespace(namespace, self._client, self._schemas, self._event_topics, self._on_change, self._rng)
        events = topic_of(namespace)

        def changed(event: RecordEvent) -> None:
            if event.type is not EventType.CHILDREN_CHANGED:
                made.look_again()

        watched = (
            paths.managed_ledger_path(events.managed_ledger_name),
            paths.partitioned_topic_path(namespace, events.domain, events.local_name),
        )
        cancels = [self._store.watch(path, changed) for path in watched]
        followed = self._followed[namespace] = _Followed(made, EventsWriter(self._client, self._cluster), cancels)
        return followed

    async def _event_topics(self, name: TopicName) -> list[TopicName]:
        async with self._looks:
            record = await self._catalog.partitioned.get(name)
            if record is not None and record.partitions > 0:
                return [name.partition(index) for index in range(record.partitions)]
            return [name] if await self._catalog.topic_exists(name) else []

    def _gained(self, bundle: BundleName) -> None:
        if not self._is_closed and not is_without_policies(bundle.namespace):
            self._follow(bundle.namespace)

    def _lost(self, bundle: BundleName) -> None:
        if bundle.namespace in self._followed and not self._owns_any(bundle.namespace):
            self._drop(bundle.namespace)

    def _owns_any(self, namespace: str) -> bool:
        return any(bundle.namespace == namespace for bundle in self._ownership.owned_bundles())

    def _sweep_unowned(self) -> None:
        owned = {bundle.namespace for bundle in self._ownership.owned_bundles()}
        for namespace, followed in list(self._followed.items()):
            if followed.namespace.changing.locked():
                continue
            if namespace not in owned:
                self._drop(namespace)
            else:
                self._in_background(followed.writer.close_if_unused())
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep_unowned)

    # --- what the metadata tells -------------------------------------------------------------------------------------

    def _owner_changed(self, event: RecordEvent) -> None:
        """Called when a bundle has got another owner, or has no owner any more. Producers and readers of the bundle's
        topics look for the new owner at once."""
        if event.type is EventType.CHILDREN_CHANGED:
            return
        namespace = event.path.removeprefix(f"{paths.NAMESPACE_OWNERS}/").rpartition("/")[0]
        if namespace in self._followed:
            self._client.nudge(namespace)

    def _session_changed(self, event: SessionEvent) -> None:
        """Looks at all namespaces again, because changes during the loss of the connection were not reported."""
        if event in (SessionEvent.CONNECTED, SessionEvent.NEW_SESSION):
            for followed in self._followed.values():
                followed.namespace.look_again()
            self._client.nudge()


def is_without_policies(namespace: str) -> bool:
    """Returns whether topics of the namespace never have policies of their own. This applies to the namespaces for
    health checks and to the system namespace."""
    return namespace == SYSTEM_NAMESPACE or heartbeat_broker(namespace) is not None
