"""Lists the non-persistent topics of a namespace. Such a topic exists only in the broker that has loaded it, so every
broker that owns bundles of the namespace is asked. Source: NonPersistentTopics.getList.
"""

from urllib.parse import quote

from magnetar.server.admin.over_bundles import at_owners
from magnetar.server.broker.broker import Broker
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ranges import hash_of
from magnetar.server.process.turns import in_portions
from pulsar_proto.names import NON_PERSISTENT


async def non_persistent_topics(broker: Broker, namespace: str) -> list[str]:
    """Returns the full names of the namespace's non-persistent topics at all brokers, sorted. Raises Refusal or
    PulsarError when a broker cannot be asked."""
    catalog = broker.service.catalog
    here = catalog.non_persistent_topics_of(namespace)
    if broker.ownership.is_sole:
        return here

    async def in_bundle(bundle: BundleName) -> list[str]:
        return [topic async for topic in in_portions(here) if bundle.includes(hash_of(topic))]

    path = f"/admin/v2/{NON_PERSISTENT}/{quote(namespace)}"
    listed = await at_owners(
        broker, namespace, in_bundle, method="GET", path=lambda bundle: f"{path}/{bundle.range}", acquire=False
    )
    return sorted({topic for topics in listed for topic in topics or ()})
