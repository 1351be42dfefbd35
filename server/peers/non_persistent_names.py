"""Lists the non-persistent topics of a namespace on all brokers of the cluster.

A non-persistent topic exists only on the broker that has loaded it. Apache's broker answers clients with the topics
that it has loaded itself, so that the list depends on the broker that was asked. Magnetar asks the owner of each
bundle.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.ownership import Ownership
from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.peers.peer_errors import PeerError
from pulsar_proto.errors import PulsarError
from pulsar_proto.names import NON_PERSISTENT

if TYPE_CHECKING:
    from magnetar.server.peers.admin_peer import PeerAnswer

log = logging.getLogger(__name__)

ASKED_AT_ONCE = 32
"""How many bundles' owners are asked at the same time for one list."""
ASK_SECONDS = 5.0
"""The deadline of one question. A broker that does not answer in time does not serve clients either, so its topics are
left out."""


class Calls(Protocol):
    """The methods of `admin_peer.AdminPeer` that this module uses."""

    async def call(
        self, method: str, url_or_broker: str, path: str, *, deadline_seconds: float | None = None
    ) -> "PeerAnswer": ...


class NonPersistentNames:
    """Makes the lists. One object serves the process. All calls are made on the loop's thread."""

    def __init__(self, ownership: Ownership, catalog: TopicCatalog, calls: Callable[[], Calls | None]) -> None:
        """`calls` returns the HTTP client for calls of other brokers, or None while there is no such client."""
        self._ownership = ownership
        self._catalog = catalog
        self._calls = calls
        self._asking: dict[str, asyncio.Task[list[str]]] = {}

    async def of(self, namespace: str) -> list[str]:
        """Returns the full names of the namespace's non-persistent topics, sorted. Callers that ask at the same time
        share one round of questions. Raises PulsarError when the namespace's bundles cannot be read."""
        calls = self._calls()
        if self._ownership.is_sole or calls is None:
            return self._catalog.non_persistent_topics_of(namespace)
        task = self._asking.get(namespace)
        if task is None:
            task = self._asking[namespace] = asyncio.get_running_loop().create_task(self._ask_all(calls, namespace))
            task.add_done_callback(lambda _: self._asking.pop(namespace, None))
        found = await asyncio.shield(task)
        return sorted({*found, *self._catalog.non_persistent_topics_of(namespace)})

    async def _ask_all(self, calls: Calls, namespace: str) -> list[str]:
        bundles = await self._ownership.bundles.get(namespace)
        permits = asyncio.Semaphore(ASKED_AT_ONCE)

        async def ask(bundle: BundleName) -> list[str]:
            async with permits:
                return await self._of_bundle(calls, bundle)

        return [name for names in await asyncio.gather(*map(ask, bundles.all)) for name in names]

    async def _of_bundle(self, calls: Calls, bundle: BundleName) -> list[str]:
        try:
            owner = await self._ownership.owner_of(bundle)
            if owner is None or owner.broker_id == self._ownership.broker_id:
                return []
            return await _ask(calls, owner, bundle)
        except (PulsarError, PeerError, ValueError) as error:
            log.warning("%s: its non-persistent topics are not listed: %s", bundle, error)
            return []


async def _ask(calls: Calls, owner: BrokerAddresses, bundle: BundleName) -> list[str]:
    """Asks a bundle's owner for its non-persistent topics of the bundle. Raises PeerError when the owner does not
    answer, and ValueError for an answer that is not a list."""
    path = f"/admin/v2/{NON_PERSISTENT}/{quote(bundle.namespace)}/{bundle.range}"
    answer = await calls.call("GET", owner.web_url, path, deadline_seconds=ASK_SECONDS)
    if answer.status != 200:
        raise ValueError(f"{owner.web_url} answers {answer.status}")
    names = json.loads(answer.body)
    prefix = f"{NON_PERSISTENT}://{bundle.namespace}/"
    if not isinstance(names, list):
        raise ValueError(f"{owner.web_url} answers no list")
    return [name for name in names if isinstance(name, str) and name.startswith(prefix)]
