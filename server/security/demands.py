"""Demands: the permission that a command or an HTTP call demands of its caller's role, as data. Each command and each
call states one demand.

The commands of the client protocol state their demands in `command_permissions.COMMANDS` (server/protocol), and HTTP
calls state theirs in their routes. `authorizer` decides whether a role meets a demand.
"""

from dataclasses import dataclass
from typing import NamedTuple

from magnetar.server.security.operations import NamespaceOperation, TopicOperation


@dataclass(frozen=True, slots=True)
class Open:
    """The demand of a call that everybody may make, even without a role."""

    why: str
    """The reason why everybody may make the call, for readers of the table."""


class Superuser(NamedTuple):
    """The demand of a call that only the superUserRoles may make (PulsarWebResource.validateSuperUserAccess)."""


class TenantAdmin(NamedTuple):
    """The demand of a call that only administrators of the tenant and superusers may make."""

    operation: str
    """A name of Java's TenantOperation; empty for a call that Java checks without an operation."""


class OnNamespace(NamedTuple):
    """The demand of an operation on a namespace, which the tenant's administrators may do, and roles with a grant that
    covers the operation."""

    operation: NamespaceOperation


class OnNamespacePolicy(NamedTuple):
    """The demand of a call that reads or writes a policy of a namespace. Only administrators of the tenant may make it
    (validateNamespacePolicyOperation)."""

    policy: str
    """A name of Java's PolicyName."""
    write: bool = True


class OnTopic(NamedTuple):
    """The demand of an operation on a topic, which the tenant's administrators may do, and roles with a grant that
    covers the operation."""

    operation: TopicOperation


class OnTopicPolicy(NamedTuple):
    """The demand of a call that reads or writes a policy of a topic. Only administrators of the tenant may make it
    (validateTopicPolicyOperation)."""

    policy: str
    """A name of Java's PolicyName."""
    write: bool = True


Demand = Open | Superuser | TenantAdmin | OnNamespace | OnNamespacePolicy | OnTopic | OnTopicPolicy


def policy_operation(demand: OnNamespacePolicy | OnTopicPolicy) -> str:
    """Returns the name of Java's PolicyOperation."""
    return "WRITE" if demand.write else "READ"
