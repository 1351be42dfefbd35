"""The calls on tenants. Source: TenantsBase; answers recorded from Pulsar 4.0.7."""

import re
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.errors import NodeExistsError, NoNodeError, NotEmptyError
from magnetar.server.admin import bodies, json_records
from magnetar.server.admin.namespace_deletion import delete_namespace
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER, TENANT_ADMIN
from magnetar.server.web.places import Place

NAME = re.compile(r"[-=:.\w]+", re.ASCII)
"""The characters of valid names of tenants, clusters and namespaces (NamedEntity)."""


async def list_all(call: Call) -> Answer:
    return await json_records.children(call.broker.service.metadata, paths.POLICIES)


async def get(call: Call) -> Answer:
    tenant = await json_records.read(call.broker.service.metadata, paths.tenant_path(_name(call)))
    if tenant is None:
        raise Refusal(404, "Tenant does not exist")
    return tenant


async def create(call: Call) -> Answer:
    tenant = _name(call)
    info = await _checked(call)
    try:
        await call.broker.service.metadata.create(paths.tenant_path(tenant), to_json(info), make_parents=True)
    except NodeExistsError:
        raise Refusal(409, "Tenant already exist") from None
    return NO_CONTENT


async def update(call: Call) -> Answer:
    tenant = _name(call)
    info = await _checked(call)

    def change(record: dict[str, Any]) -> None:
        record.update(info)

    if not await json_records.update(call.broker.service.metadata, paths.tenant_path(tenant), change):
        raise Refusal(404, f"Tenant {tenant} not found")
    return NO_CONTENT


async def delete(call: Call) -> Answer:
    tenant = _name(call)
    service = call.broker.service
    force = call.flag("force")
    if force and not service.settings.force_delete_tenant_allowed:
        raise Refusal(405, "Broker doesn't allow forced deletion of tenants")
    if await service.metadata.exists(paths.tenant_path(tenant)) is None:
        raise Refusal(404, "Tenant doesn't exist")
    namespaces = await json_records.children(service.metadata, paths.tenant_path(tenant))
    if namespaces and not force:
        raise Refusal(409, "The tenant still has active namespaces")
    for namespace in namespaces:
        await delete_namespace(call.broker, f"{tenant}/{namespace}", force=True)
    try:
        await service.metadata.delete(paths.tenant_path(tenant))
    except NoNodeError:
        raise Refusal(404, "Tenant doesn't exist") from None
    except NotEmptyError:
        raise Refusal(409, "The tenant still has active namespaces") from None
    return NO_CONTENT


def _name(call: Call) -> str:
    """Returns the tenant that the path names. Raises Refusal 412 when the name is not valid."""
    tenant = call.parts["tenant"]
    if not NAME.fullmatch(tenant) or tenant in (".", ".."):
        raise Refusal(412, "Tenant name is not valid")
    return tenant


async def _checked(call: Call) -> dict[str, Any]:
    """Returns the TenantInfo in the body of a call. Raises Refusal 400 or 412 when the body holds no valid
    TenantInfo."""
    body = bodies.parse(call.body)
    if body is bodies.ABSENT or body is None:
        raise Refusal(412, "TenantInfo is null")
    info = bodies.obj(body)
    clusters, roles = info.get("allowedClusters"), info.get("adminRoles")
    if clusters is None:
        raise Refusal(412, "Clusters cannot be null")
    clusters = bodies.strings(clusters, "allowedClusters")
    if not clusters or not all(cluster.strip() for cluster in clusters):
        raise Refusal(412, "Clusters cannot be empty or blank")
    known = await json_records.children(call.broker.service.metadata, paths.CLUSTERS)
    if not set(clusters) <= set(known):
        raise Refusal(412, "Clusters do not exist")
    roles = [] if roles is None else bodies.strings(roles, "adminRoles")
    if any(role != role.strip() for role in roles):
        raise Refusal(412, "AdminRoles contains whitespace in the beginning or end.")
    return {"adminRoles": roles, "allowedClusters": clusters}


ROUTES = (
    Route("GET", "/admin/v2/tenants", list_all, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/tenants/{tenant}", get, TENANT_ADMIN, Place.ANY_BROKER),
    Route("PUT", "/admin/v2/tenants/{tenant}", create, SUPERUSER, Place.ANY_BROKER),
    Route("POST", "/admin/v2/tenants/{tenant}", update, SUPERUSER, Place.ANY_BROKER),
    Route("DELETE", "/admin/v2/tenants/{tenant}", delete, SUPERUSER, Place.ANY_BROKER),
)
