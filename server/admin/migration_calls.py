"""Where clients of this cluster go once they are told to move to another one: the address is kept and shown; moving
them is refused, because nobody here would tell them.

Source: Clusters (updateClusterMigration), NamespacesBase.internalUpdateMigrated; real answers of 4.0.7.
"""

from typing import Any

from magnetar.metadata import paths
from magnetar.server.admin import bodies, records
from magnetar.server.admin.bundle_calls import change_local_policies
from magnetar.server.admin.paths import NAMESPACES, namespace_of
from magnetar.server.web.absent import NO_MIGRATION
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER

URLS = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls")


async def of_cluster(call: Call) -> Answer:
    found = await records.read(call.broker.service.metadata, _path(call))
    if found is None:
        raise Refusal(404, "Cluster does not exist")
    return found


async def set_of_cluster(call: Call) -> Answer:
    """`?migrated=`; the body names the other cluster. Raises Refusal 404, 503."""
    store = call.broker.service.metadata
    if await store.exists(paths.cluster_path(call.parts["cluster"])) is None:
        raise Refusal(404, "Cluster does not exist")
    if call.flag("migrated"):
        raise Refusal(503, NO_MIGRATION)
    given = bodies.obj(bodies.present(bodies.parse(call.body)))
    urls: dict[str, Any] = {key: bodies.text(given[key], key) for key in URLS if given.get(key) is not None}
    data = {"migrated": False, "migratedClusterUrl": {**urls, "empty": not urls}}
    await records.update(store, _path(call), lambda held: held.update(data), create=True)
    return EMPTY


async def set_of_namespace(call: Call) -> Answer:
    """Raises Refusal 404, 503."""
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
    Route("GET", OF_CLUSTER, of_cluster, SUPERUSER),
    Route("POST", OF_CLUSTER, set_of_cluster, SUPERUSER),
    Route("POST", f"{NAMESPACES}/migration", set_of_namespace, SUPERUSER),
)
