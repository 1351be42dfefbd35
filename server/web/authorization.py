"""Authenticates the caller of each HTTP call and checks that the caller has the permission that the call's route needs,
before anything else of the call runs.

Texts and codes are Java's, because admin clients map 401 and 403 to NotAuthorizedException and show the text to their
users. Sources: AuthenticationFilter; PulsarWebResource and its validate…Operation methods, which answer 401
when the permission of a superuser, of a tenant's administrator or for a topic operation is missing, and 403 for
operations on namespaces and policies.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from magnetar.metadata.errors import MetadataError
from magnetar.server.security.authorizer import Authorizer, TenantMissingError
from magnetar.server.security.demands import (
    Demand,
    OnNamespace,
    OnNamespacePolicy,
    OnTopic,
    OnTopicPolicy,
    Open,
    Superuser,
    TenantAdmin,
    policy_operation,
)
from magnetar.server.security.operations import NamespaceOperation, TopicOperation
from magnetar.server.security.principals import Principal
from magnetar.server.security.tls_provider import common_name_of
from magnetar.server.web.calls import Refusal
from magnetar.server.web.needs import Need, Scope
from pulsar_proto.errors import InvalidTopicName
from pulsar_proto.names import NamespaceName, TopicName

if TYPE_CHECKING:
    from magnetar.server.security.security import Security

log = logging.getLogger(__name__)

METRICS = "/metrics"

UNAUTHORIZED = 401
FORBIDDEN = 403

Parts = Mapping[str, str]
"""The variable segments of a path by name: tenant, namespace, domain, topic, subscription."""

_DEMANDS: dict[Scope, Callable[[Need], Demand]] = {
    Scope.EVERYBODY: lambda need: Open("the route says so"),
    Scope.SUPERUSER: lambda need: Superuser(),
    Scope.TENANT_ADMIN: lambda need: TenantAdmin(need.operation),
    Scope.NAMESPACE: lambda need: OnNamespace(NamespaceOperation[need.operation]),
    Scope.NAMESPACE_POLICY: lambda need: OnNamespacePolicy(need.operation, need.write),
    Scope.TOPIC: lambda need: OnTopic(TopicOperation[need.operation]),
    Scope.TOPIC_POLICY: lambda need: OnTopicPolicy(need.operation, need.write),
}


def demand_of(need: Need) -> Demand:
    """Returns the `Demand` (the form in which the authorizer takes a question) for a route with this need. Raises
    KeyError when Java's enums do not have the operation that the need names."""
    return _DEMANDS[need.scope](need)


async def admit(
    security: "Security",
    need: Need,
    path: str,
    parts: Parts,
    headers: Mapping[str, str],
    certificate: Mapping[str, Any] | None,
    remote: str,
) -> Principal | None:
    """Returns the principal of the caller when the call is allowed. Returns None for a route that is open to everybody,
    because callers of such a route are not authenticated. Raises Refusal: 401 or 403 for a call that is not allowed,
    404 when the tenant is missing, 412 for a name that is not valid, 503 when the permissions cannot be read."""
    demand = demand_of(need)
    # The router ignores a trailing slash, so the authorization ignores it, too.
    is_metrics = path.rstrip("/") == METRICS
    if isinstance(demand, Open) and not (is_metrics and security.settings.authenticate_metrics_endpoint):
        return None
    principal = await security.principal_of_http(headers, common_name_of(certificate), remote)
    if principal is None:
        raise Refusal(UNAUTHORIZED, "Authentication required")
    if security.authorizer is not None:
        await _authorize(security.authorizer, principal, demand, parts, remote)
    return principal


async def _authorize(authorizer: Authorizer, principal: Principal, demand: Demand, parts: Parts, remote: str) -> None:
    tenant = parts.get("tenant", "")
    namespace, topic = _subject(demand, parts)
    try:
        denied = await authorizer.denied(
            principal,
            demand,
            tenant=tenant,
            namespace=namespace,
            topic=topic,
            subscription=parts.get("subscription"),
        )
    except TenantMissingError:
        raise Refusal(404, "Tenant does not exist") from None
    except MetadataError as error:
        raise Refusal(503, f"Permissions cannot be read: {error}") from error
    if denied is None:
        return
    status, text = _refusal(principal, demand, tenant, namespace, topic)
    log.warning("%s: denied to role %s: %s%s", remote, principal, text, denied and f" ({denied})")
    raise Refusal(status, text)


def _subject(demand: Demand, parts: Parts) -> tuple[str, TopicName | None]:
    """Returns the namespace and the topic that the path names. Raises Refusal 412 for a name that is not valid."""
    if not isinstance(demand, OnTopic | OnTopicPolicy | OnNamespace | OnNamespacePolicy):
        return "", None
    try:
        if isinstance(demand, OnNamespace | OnNamespacePolicy):
            return str(NamespaceName.parse(f"{parts['tenant']}/{parts['namespace']}")), None
        domain = parts.get("domain", "persistent")
        topic = TopicName.parse(f"{domain}://{parts['tenant']}/{parts['namespace']}/{parts['topic']}")
    except InvalidTopicName as error:
        raise Refusal(412, str(error)) from None
    return topic.namespace, topic


def _refusal(
    principal: Principal, demand: Demand, tenant: str, namespace: str, topic: TopicName | None
) -> tuple[int, str]:
    """Returns the status and the text with which PulsarWebResource refuses the demand."""
    match demand:
        case OnTopic(operation):
            text = f"Unauthorized to validateTopicOperation for operation [{operation.name}] on topic [{topic}]"
            return UNAUTHORIZED, text
        case OnTopicPolicy(policy):
            return FORBIDDEN, (
                f"Unauthorized to validateTopicPolicyOperation for operation [{policy_operation(demand)}] "
                f"on topic [{topic}] on policy [{policy}]"
            )
        case OnNamespace(operation):
            return FORBIDDEN, (
                f"Unauthorized to validateNamespaceOperation for operation [{operation.name}] "
                f"on namespace [{namespace}]"
            )
        case OnNamespacePolicy(policy):
            return FORBIDDEN, (
                f"Unauthorized to validateNamespacePolicyOperation for operation [{policy_operation(demand)}] "
                f"on namespace [{namespace}] on policy [{policy}]"
            )
        case TenantAdmin(operation) if operation:
            return UNAUTHORIZED, (
                f"Unauthorized to validateTenantOperation for originalPrincipal [{principal.original or 'null'}] and "
                f"clientAppId [{principal.role}] about operation [{operation}] on tenant [{tenant}]"
            )
        case TenantAdmin():
            return UNAUTHORIZED, "Don't have permission to administrate resources on this tenant"
        case _:
            return UNAUTHORIZED, "This operation requires super-user access"
