"""The rows of `tenants` and of its old name `properties`."""

from magnetar.server.tools.admin.command_table import COMMAS, FLAG, LINES, VALUE, Argument, Call, Command, Option
from magnetar.server.tools.admin.invocation import Invocation

_TENANT = Argument("tenant", "the tenant's name")
_PATH = "/admin/v2/tenants/{tenant}"
_OPTIONS = (
    Option("-r --admin-roles", "roles that may administer the tenant, comma separated", COMMAS),
    Option("-c --allowed-clusters", "clusters that the tenant may use, comma separated", COMMAS),
)


def _create(invocation: Invocation) -> None:
    """Without a choice of clusters, the tenant may use all that there are now."""
    clusters = invocation["allowed-clusters"] or invocation.get("/admin/v2/clusters")
    _send(invocation, "PUT", invocation["admin-roles"] or [], clusters)


def _update(invocation: Invocation) -> None:
    """What is not given stays as it is."""
    roles, clusters = invocation["admin-roles"], invocation["allowed-clusters"]
    if roles is None or clusters is None:
        stored = invocation.get(_PATH)
        roles = stored.get("adminRoles") or [] if roles is None else roles
        clusters = stored.get("allowedClusters") or [] if clusters is None else clusters
    _send(invocation, "POST", roles, clusters)


def _send(invocation: Invocation, method: str, roles: list[str], clusters: list[str]) -> None:
    body = {"adminRoles": list(dict.fromkeys(roles)), "allowedClusters": list(dict.fromkeys(clusters))}
    invocation.call(Call(method, _PATH, body=lambda _: body))


COMMANDS = (
    Command("list", "Lists the tenants.", Call("GET", "/admin/v2/tenants"), output=LINES, examples=("",)),
    Command("get", "Shows a tenant.", Call("GET", _PATH), (_TENANT,), output=VALUE, examples=("my-tenant",)),
    Command(
        "create",
        "Creates a tenant.",
        _create,
        (_TENANT,),
        _OPTIONS,
        examples=("my-tenant", "my-tenant -r admin1,admin2 -c us-west"),
    ),
    Command(
        "update",
        "Changes who administers a tenant and which clusters it may use.",
        _update,
        (_TENANT,),
        _OPTIONS,
        examples=("my-tenant -r admin1",),
    ),
    Command(
        "delete",
        "Deletes a tenant.",
        Call("DELETE", _PATH, (("force", "{force}"),)),
        (_TENANT,),
        (Option("-f --force", "with all its namespaces", FLAG),),
        examples=("my-tenant",),
    ),
)
