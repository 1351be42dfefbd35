"""The groups of bookies that the ledgers of a namespace should be written to.

The groups are stored in the namespace's local policies. A standalone server stores and shows them without effect,
because its only bookie has all ledgers. Source: NamespacesBase (internalSetBookieAffinityGroup),
BookieAffinityGroupData; answers recorded from Pulsar 4.0.7.
"""

import logging
from typing import Any

from magnetar.metadata import paths
from magnetar.server.admin import bodies, json_records
from magnetar.server.admin.bundle_calls import change_local_policies
from magnetar.server.admin.call_paths import NAMESPACES, namespace_of
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place

log = logging.getLogger(__name__)

KEY = "bookieAffinityGroup"
GROUPS = ("bookkeeperAffinityGroupPrimary", "bookkeeperAffinityGroupSecondary")


async def get(call: Call) -> Answer:
    name = await _checked(call)
    local = await json_records.read(call.broker.service.metadata, paths.local_policies_path(name))
    if local is None:
        raise Refusal(404, "Namespace local-policies does not exist")
    return local.get(KEY) or NO_CONTENT


async def put(call: Call) -> Answer:
    """Sets the namespace's groups. An empty body, or null, removes the groups."""
    name, body = await _checked(call), bodies.parse(call.body)
    given = None
    if body is not bodies.ABSENT and body is not None:
        known = bodies.obj(body)
        given = {key: bodies.text(known[key], key) for key in GROUPS if known.get(key) is not None}
    await _change(call, name, given)
    if given and call.broker.ownership.is_sole:
        log.warning("%s: its bookie affinity group is without effect: one bookie has all ledgers", name)
    return NO_CONTENT


async def delete(call: Call) -> Answer:
    await _change(call, await _checked(call), None)
    return NO_CONTENT


async def _change(call: Call, name: str, given: dict[str, str] | None) -> None:
    def change(local: dict[str, Any]) -> None:
        local.pop(KEY, None)
        if given is not None:
            local[KEY] = given

    await change_local_policies(call.broker.service, name, change)


async def _checked(call: Call) -> str:
    """Returns the name of the call's namespace. Raises Refusal 404 when the namespace does not exist."""
    name = namespace_of(call)
    if not await call.broker.service.catalog.namespace_exists(name):
        raise Refusal(404, "Namespace not found")
    return name


PATH = f"{NAMESPACES}/persistence/bookieAffinity"

ROUTES = (
    Route("GET", PATH, get, SUPERUSER, Place.ANY_BROKER),
    Route("POST", PATH, put, SUPERUSER, Place.ANY_BROKER),
    Route("DELETE", PATH, delete, SUPERUSER, Place.ANY_BROKER),
)
"""Apache lets only superusers make these calls, although the tenant's administrators may change most other policies of
a namespace."""
