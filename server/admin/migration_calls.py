"""The calls on migration, which tell the clients of a cluster or of a namespace to move to another cluster.

The address of the other cluster is stored and shown. Marking the cluster or the namespace as migrated is refused,
because this broker does not tell its clients to move.

Source: Clusters (updateClusterMigration), NamespacesBase.internalUpdateMigrated; answers recorded from Pulsar 4.0.7.
"""

from typing import Any

from magnetar.metadata import paths
from magnetar.server.admin import bodies, json_records
from magnetar.server.admin.bundle_calls import change_local_policies
from magnetar.server.admin.call_paths import NAMESPACES, namespace_of
from magnetar.server.web.absent_calls import NO_MIGRATION
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place

URLS = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls")


async def of_cluster(call: Call) -> Answer:
    found = await json_records.read(call.broker.service.metadata, _path(call))
    if found is None:
        raise Refusal(404, "Cluster does not exist")
    return found


async def set_of_cluster(call: Call) -> Answer:
    """Sets the addresses of the other cluster, which the body names. Raises Refusal 404 when the call's cluster does
    not exist, and 503 when the parameter `migrated` is set."""
    store = call.broker.service.metadata
    if await store.exists(paths.cluster_path(call.parts["cluster"])) is None:
        raise Refusal(404, "Cluster does not exist")
    if call.flag("migrated"):
        raise Refusal(503, NO_MIGRATION)
    given = bodies.obj(bodies.present(bodies.parse(call.body)))
    urls: dict[str, Any] = {key: bodies.text(given[key], key) for key in URLS if given.get(key) is not None}
    data = {"migrated": False, "migratedClusterUrl": {**urls, "empty": not urls}}
    await json_records.update(store, _path(call), lambda held: held.update(data), create=True)
    return EMPTY


async def set_of_namespace(call: Call) -> Answer:
    """Marks a namespace as not migrated. Raises Refusal 404 when the namespace does not exist, and 503 when the call
    asks to mark the namespace as migrated."""
    name, wanted = namespace_of(call), bodies.boolean(bodies.present(bodies.parse(call.body)))
    if not await call.broker.service.catalog.namespace_exists(name):
        raise Refusal(404, "Namespace does not exist")
    if wanted:
        raise Refusal(503, NO_MIGRATION)
    await change_local_policies(call.broker.service, name, lambda local: local.update(migrated=False))
    return NO_CONTENT


def _path(call: Call) -> str:
    return f"{paths.cluster_path(call.parts['cluster'])}/policies"


OF_CLUSTER = "/admin/v2/clusters/{cluster}/migrate"

ROUTES = (
    Route("GET", OF_CLUSTER, of_cluster, SUPERUSER, Place.ANY_BROKER),
    Route("POST", OF_CLUSTER, set_of_cluster, SUPERUSER, Place.ANY_BROKER),
    Route("POST", f"{NAMESPACES}/migration", set_of_namespace, SUPERUSER, Place.ANY_BROKER),
)
