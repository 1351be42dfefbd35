"""The permissions that the policies of a namespace grant to roles: pure rules.

Sources: PulsarAuthorizationProvider.checkPermission, canConsumeAsync, checkWildcardPermission.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from magnetar.server.security.operations import AuthAction, NamespaceOperation, TopicOperation
from pulsar_proto.names import TopicName

Grants = Mapping[str, frozenset[str]]
"""The granted actions of each role."""

PREFIX = "Prefix"
"""The subscription_auth_mode in which a subscription's name must begin with its consumer's role."""


@dataclass(frozen=True, slots=True)
class NamespacePermissions:
    """The part of a namespace's policies that concerns permissions."""

    namespace_auth: Grants = field(default_factory=dict)
    destination_auth: Mapping[str, Grants] = field(default_factory=dict)
    """The grants on each topic, by full topic name. The grants of a partitioned topic hold for its partitions too."""
    subscription_auth_roles: Grants = field(default_factory=dict)
    """The roles that may use each listed subscription, by subscription name. Any other subscription may be used by
    every role that may consume."""
    subscription_auth_mode: str = "None"

    @classmethod
    def of_policies(cls, policies: Mapping[str, Any]) -> "NamespacePermissions":
        """Reads the JSON of a namespace's policies. A part that is null or has another shape grants nothing."""
        auth = _mapping(policies.get("auth_policies"))
        return cls(
            namespace_auth=_grants(auth.get("namespace_auth")),
            destination_auth={topic: _grants(roles) for topic, roles in _mapping(auth.get("destination_auth")).items()},
            subscription_auth_roles=_grants(auth.get("subscription_auth_roles")),
            subscription_auth_mode=str(policies.get("subscription_auth_mode") or "None"),
        )

    def allows_on_topic(
        self,
        role: str,
        operation: TopicOperation,
        topic: TopicName,
        subscription: str | None,
        *,
        wildcards: bool,
    ) -> bool:
        """Returns True if a grant covers the operation; if this is a grant to consume, the role must also be allowed to
        use the subscription. Administrators need no grant: the caller has let them through before."""
        return any(
            self._grants_on_topic(role, action, topic, wildcards)
            and (action is not AuthAction.CONSUME or self.fault_of_subscription(role, topic, subscription) is None)
            for action in operation.grants
        )

    def allows_on_namespace(self, role: str, operation: NamespaceOperation, *, wildcards: bool) -> bool:
        return any(_has(self.namespace_auth, role, action, wildcards) for action in operation.grants)

    def fault_of_subscription(self, role: str, topic: TopicName, subscription: str | None) -> str | None:
        """Returns why the role may not use this subscription, or None if the role may use it."""
        if not subscription:
            return None
        roles = self.subscription_auth_roles.get(subscription)
        if roles and role not in roles:
            return f"{role} is not authorized to subscribe on {topic}-{subscription}"
        if self.subscription_auth_mode == PREFIX and not subscription.startswith(role):
            return (
                "Failed to create consumer - The subscription name needs to be prefixed by the authentication role, "
                f"like {role}-xxxx for topic: {topic}"
            )
        return None

    def _grants_on_topic(self, role: str, action: AuthAction, topic: TopicName, wildcards: bool) -> bool:
        if _has(self.namespace_auth, role, action, wildcards):
            return True
        if _has(self.destination_auth.get(topic.full, {}), role, action, wildcards):
            return True
        # Apache's broker does not apply wildcards to the grants of the partitioned topic.
        return topic.is_partition and _has(self.destination_auth.get(topic.base.full, {}), role, action, False)


def _has(grants: Grants, role: str, action: AuthAction, wildcards: bool) -> bool:
    if action.value in grants.get(role, ()):
        return True
    return wildcards and any(
        action.value in actions and matches_wildcard(role, pattern) for pattern, actions in grants.items()
    )


def matches_wildcard(role: str, pattern: str) -> bool:
    """Returns whether a pattern such as `a*` or `*a` fits a role. A star anywhere else stands for itself."""
    if pattern.endswith("*") and role.startswith(pattern[:-1]):
        return True
    return pattern.startswith("*") and role.endswith(pattern[1:])


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _grants(value: Any) -> dict[str, frozenset[str]]:
    return {
        role: frozenset(action for action in actions if isinstance(action, str))
        for role, actions in _mapping(value).items()
        if isinstance(actions, Collection) and not isinstance(actions, str)
    }
