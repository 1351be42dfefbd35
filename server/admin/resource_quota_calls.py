"""The calls on resource quotas, which say how much load a bundle is expected to have. The load manager of a cluster
reads the quotas of bundles whose load was never measured. A standalone broker only stores and shows them.

Source: ResourceQuotasBase, ResourceQuotaCache; answers recorded from Pulsar 4.0.7.
"""

from typing import Any

from magnetar.server.admin import bodies, json_records
from magnetar.server.admin.bundle_calls import checked_bundle
from magnetar.server.admin.call_paths import namespace_of
from magnetar.server.admin.namespace_deletion import delete_tree
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place
from pulsar_proto.errors import TopicNotFound

QUOTAS = "/loadbalance/resource-quota"
DEFAULT_PATH = f"{QUOTAS}/default"

DEFAULT = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100_000.0,
    "bandwidthOut": 300_000.0,
    "memory": 80.0,
    "dynamic": True,
}
"""The quota of a bundle when nobody has set a quota for the bundle or the default quota."""


async def default(call: Call) -> Answer:
    return await json_records.read(call.broker.service.metadata, DEFAULT_PATH) or DEFAULT


async def set_default(call: Call) -> Answer:
    quota = _quota(call)
    await json_records.update(call.broker.service.metadata, DEFAULT_PATH, lambda held: held.update(quota), create=True)
    return NO_CONTENT


async def get(call: Call) -> Answer:
    return await json_records.read(call.broker.service.metadata, await _path(call)) or await default(call)


async def put(call: Call) -> Answer:
    quota, path = _quota(call), await _path(call)
    await json_records.update(call.broker.service.metadata, path, lambda held: held.update(quota), create=True)
    return NO_CONTENT


async def remove(call: Call) -> Answer:
    await delete_tree(call.broker.service.metadata, await _path(call))
    return NO_CONTENT


async def _path(call: Call) -> str:
    """Returns the path of the record for the call's bundle. Raises Refusal when there is no such bundle."""
    try:
        _, bundle = await checked_bundle(call)
    except TopicNotFound:
        raise Refusal(404, "Namespace does not exist") from None
    return f"{QUOTAS}/{namespace_of(call)}/{bundle}"


def _quota(call: Call) -> dict[str, Any]:
    given = bodies.obj(bodies.present(bodies.parse(call.body)))
    quota: dict[str, Any] = {key: bodies.number(given.get(key), key) for key in DEFAULT if key != "dynamic"}
    return {**quota, "dynamic": bodies.boolean(given.get("dynamic"))}


BUNDLE = "/admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}"

ROUTES = (
    Route("GET", "/admin/v2/resource-quotas", default, SUPERUSER, Place.ANY_BROKER),
    Route("POST", "/admin/v2/resource-quotas", set_default, SUPERUSER, Place.ANY_BROKER),
    Route("GET", BUNDLE, get, SUPERUSER, Place.ANY_BROKER),
    Route("POST", BUNDLE, put, SUPERUSER, Place.ANY_BROKER),
    Route("DELETE", BUNDLE, remove, SUPERUSER, Place.ANY_BROKER),
)
