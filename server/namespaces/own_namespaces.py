"""The namespaces that are reserved for one broker, which owns them from its start to its end.

Source: NamespaceService.registerBootstrapNamespaces, registerSLANamespace.
"""

import logging
from collections.abc import Awaitable, Callable

from magnetar.server.namespaces.bundle_name import heartbeat_bundles, sla_bundle
from magnetar.server.namespaces.ownership import Ownership
from pulsar_proto.errors import PulsarError

log = logging.getLogger(__name__)


async def acquire_own_namespaces(
    ownership: Ownership, cluster: str, namespace_exists: Callable[[str], Awaitable[bool]]
) -> None:
    """Acquires the namespaces for the health check of this broker, and the namespace for a service monitor if an
    operator has created it. Raises PulsarError when the namespaces for the health check cannot be acquired, because
    another live broker has the same id or the metadata store fails."""
    for bundle in heartbeat_bundles(cluster, ownership.broker_id):
        await ownership.acquire(bundle)
    monitored = sla_bundle(cluster, ownership.broker_id)
    try:
        if await namespace_exists(monitored.namespace):
            await ownership.acquire(monitored)
    except PulsarError as error:
        log.warning("%s cannot be owned: %s", monitored, error)
