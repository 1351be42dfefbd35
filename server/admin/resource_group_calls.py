"""The calls on resource groups, which are rates that several namespaces share. This broker stores and shows the groups,
but limits nothing by them.

Source: ResourceGroupsBase, NamespacesBase (internalSetNamespaceResourceGroup); answers recorded from Pulsar 4.0.7.
"""

import logging
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import MetadataStore
from magnetar.server.admin import bodies, json_records
from magnetar.server.admin.call_paths import NAMESPACES, namespace_of
from magnetar.server.admin.namespace_policy_calls import change_record, record_of
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Call, Refusal, Route, Text
from magnetar.server.web.needs import SUPERUSER, namespace_policy
from magnetar.server.web.places import Place

log = logging.getLogger(__name__)

RATES = ("publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs", "dispatchRateInBytes")
UNLIMITED = -1

NOT_FOUND = "ResourceGroup does not exist"
GROUP_OF_NAMESPACE = "resource_group_name"
"""The key in the policies of a namespace."""


async def list_all(call: Call) -> Answer:
    return await json_records.children(_store(call), paths.RESOURCE_GROUPS)


async def get(call: Call) -> Answer:
    found = await json_records.read(_store(call), _path(call))
    if found is None:
        raise Refusal(404, NOT_FOUND)
    return found


async def put(call: Call) -> Answer:
    """Creates a group, or changes the rates that the body names."""
    body = bodies.obj(bodies.present(bodies.parse(call.body)))
    given = {rate: bodies.integer(body[rate], bodies.LONG_MAX, rate) for rate in RATES if body.get(rate) is not None}

    def change(held: dict[str, Any]) -> None:
        held.update({rate: held.get(rate, UNLIMITED) for rate in RATES} | given)

    await json_records.update(_store(call), _path(call), change, create=True)
    log.warning("resource group %s is without effect: no rate is shared by namespaces here", call.parts["group"])
    return NO_CONTENT


async def delete(call: Call) -> Answer:
    """Deletes a group. Raises Refusal 404 when the group does not exist, and 412 while a namespace is in the group."""
    store, group = _store(call), call.parts["group"]
    if await json_records.read(store, _path(call)) is not None and await _is_used(store, group):
        raise Refusal(412, "ResourceGroup is in use")
    try:
        await store.delete(_path(call))
    except NoNodeError:
        raise Refusal(404, NOT_FOUND) from None
    return NO_CONTENT


async def _is_used(store: MetadataStore, group: str) -> bool:
    async for namespace in json_records.all_namespaces(store):
        policies = await json_records.read(store, paths.policies_path(namespace))
        if (policies or {}).get(GROUP_OF_NAMESPACE) == group:
            return True
    return False


async def of_namespace(call: Call) -> Answer:
    group = (await record_of(call)).get(GROUP_OF_NAMESPACE)
    return EMPTY if group is None else Text(group.encode())


async def set_of_namespace(call: Call) -> Answer:
    """Puts a namespace into a group. Raises Refusal 404 when the namespace does not exist, and 412 when the group does
    not."""
    group = call.parts["group"]
    await record_of(call)
    if await _store(call).exists(_path(call)) is None:
        raise Refusal(412, NOT_FOUND)
    await change_record(call, lambda record: record.update({GROUP_OF_NAMESPACE: group}))
    log.warning("%s: resource group %s is without effect", namespace_of(call), group)
    return NO_CONTENT


async def remove_of_namespace(call: Call) -> Answer:
    await change_record(call, lambda record: record.pop(GROUP_OF_NAMESPACE, None))
    return NO_CONTENT


def _store(call: Call) -> MetadataStore:
    return call.broker.service.metadata


def _path(call: Call) -> str:
    return f"{paths.RESOURCE_GROUPS}/{call.parts['group']}"


GROUPS = "/admin/v2/resourcegroups"
OF_NAMESPACE = f"{NAMESPACES}/resourcegroup"
_READ, _WRITE = namespace_policy("RESOURCEGROUP", write=False), namespace_policy("RESOURCEGROUP", write=True)

ROUTES = (
    Route("GET", GROUPS, list_all, SUPERUSER, Place.ANY_BROKER),
    Route("GET", f"{GROUPS}/{{group}}", get, SUPERUSER, Place.ANY_BROKER),
    Route("PUT", f"{GROUPS}/{{group}}", put, SUPERUSER, Place.ANY_BROKER),
    Route("DELETE", f"{GROUPS}/{{group}}", delete, SUPERUSER, Place.ANY_BROKER),
    Route("GET", OF_NAMESPACE, of_namespace, _READ, Place.ANY_BROKER),
    Route("POST", f"{OF_NAMESPACE}/{{group}}", set_of_namespace, _WRITE, Place.ANY_BROKER),
    Route("DELETE", OF_NAMESPACE, remove_of_namespace, _WRITE, Place.ANY_BROKER),
)
