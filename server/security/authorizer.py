"""Decides whether a role may do something, by the superuser roles, the tenant's administrators and the namespace's
grants.

Behind a proxy, both the proxy's role and the role of the proxy's client must be allowed. The records of tenants and
namespaces are read anew for each judgement, so that a change holds at once; the readers of the records cache them.
Sources: PulsarAuthorizationProvider, AuthorizationService.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.security.demands import Demand, OnNamespace, OnTopic, Open, Superuser
from magnetar.server.security.operations import TopicOperation
from magnetar.server.security.permission_rules import NamespacePermissions
from magnetar.server.security.principals import Principal
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic

RecordReader = Callable[[str], Awaitable[Mapping[str, Any] | None]]
"""A function that returns the JSON of a tenant's or namespace's record by its name, or None when there is no such
record."""

SYSTEM_TOPIC = "only administrators may write to topics of the system"
"""The reason for refusing a producer on a system topic. Apache's broker lets every role that may produce in the
namespace write to system topics, and thereby change topic policies."""

PARSED_MAX = 1_000
"""The number of namespaces whose permissions are kept in parsed form. Beyond this number all of them are forgotten, and
parsed again when somebody asks for them."""

NO_PERMISSIONS = NamespacePermissions()
"""The permissions of a namespace that does not exist."""


class TenantMissingError(Exception):
    """Somebody asked for permissions in a tenant that does not exist."""


class Authorizer:
    """Decides, for all connections and HTTP calls, what roles may do."""

    def __init__(self, settings: SecuritySettings, tenant_record: RecordReader, namespace_record: RecordReader) -> None:
        """`tenant_record` and `namespace_record` read /admin/policies/{tenant} and …/{namespace}. Each call that needs
        a record raises the errors of the reader, so that nothing is allowed while a record cannot be read."""
        self._superusers = frozenset(settings.super_user_roles)
        self._wildcards = settings.authorization_allow_wildcards_matching
        self._tenant_record = tenant_record
        self._namespace_record = namespace_record
        self._parsed: dict[str, tuple[Mapping[str, Any], NamespacePermissions]] = {}
        self._last_asked: dict[str, NamespacePermissions] = {}
        """The permissions of each namespace at the last call of `permissions_changed`."""

    def superusers_changed(self, roles: Iterable[str]) -> None:
        """Takes a changed superUserRoles, which counts for all later judgements."""
        self._superusers = frozenset(roles)

    async def denied(
        self,
        principal: Principal,
        demand: Demand,
        *,
        tenant: str = "",
        namespace: str = "",
        topic: TopicName | None = None,
        subscription: str | None = None,
    ) -> str | None:
        """Returns None when the demand is allowed, otherwise the reason for the log. The reason is empty when simply no
        grant covers the demand. The caller names the object of the demand; for a topic, the caller also names the
        topic's namespace and tenant. A namespace that does not exist grants nothing. Raises TenantMissingError,
        MetadataError."""
        if isinstance(demand, Open):
            return None
        for role in principal.roles:
            reason = await self._denied_to(role, demand, tenant, namespace, topic, subscription)
            if reason is not None:
                return reason
        return None

    async def permissions_changed(self, namespace: str) -> bool:
        """Returns whether a namespace's permissions differ from those at the last call, and True at the first call.
        Raises MetadataError."""
        now = await self._permissions(namespace)
        before = self._last_asked.get(namespace)
        self._last_asked[namespace] = now
        return before != now

    async def _denied_to(
        self,
        role: str,
        demand: Demand,
        tenant: str,
        namespace: str,
        topic: TopicName | None,
        subscription: str | None,
    ) -> str | None:
        """Returns None when the role is allowed, otherwise the reason, like `denied`. The order of the checks:
        superuser, administrator of the tenant, grant."""
        if role in self._superusers:
            return None
        if isinstance(demand, Superuser):
            return ""
        if await self._is_tenant_admin(role, tenant):
            return None
        if isinstance(demand, OnTopic):
            assert topic is not None, "a demand on a topic comes with one"
            if demand.operation is TopicOperation.PRODUCE and is_system_topic(topic):
                return SYSTEM_TOPIC
            permissions = await self._permissions(namespace)
            if permissions.allows_on_topic(role, demand.operation, topic, subscription, wildcards=self._wildcards):
                return None
            return permissions.fault_of_subscription(role, topic, subscription) or ""
        if isinstance(demand, OnNamespace):
            permissions = await self._permissions(namespace)
            return None if permissions.allows_on_namespace(role, demand.operation, wildcards=self._wildcards) else ""
        return ""

    async def _is_tenant_admin(self, role: str, tenant: str) -> bool:
        assert tenant, "what is no superuser's is some tenant's"
        record = await self._tenant_record(tenant)
        if record is None:
            raise TenantMissingError(tenant)
        admins = record.get("adminRoles")
        return isinstance(admins, list) and role in admins

    async def _permissions(self, namespace: str) -> NamespacePermissions:
        record = await self._namespace_record(namespace)
        if record is None:
            return NO_PERMISSIONS
        known = self._parsed.get(namespace)
        if known is None or known[0] is not record:
            if len(self._parsed) >= PARSED_MAX:
                self._parsed.clear()
            known = self._parsed[namespace] = (record, NamespacePermissions.of_policies(record))
        return known[1]


def parse_record(value: bytes) -> dict[str, Any]:
    """Parses a tenant's record. Anything but a JSON object counts as an empty record, which names no administrator."""
    try:
        parsed = json.loads(value)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
