"""The permission that a command or an HTTP call demands of its caller's role, as data. Each command and each call
states one demand.

The commands of the client protocol state theirs in `command_permissions.COMMANDS` (server/protocol), HTTP calls in
their routes. `authorizer` judges them.
"""

from dataclasses import dataclass
from typing import NamedTuple

from magnetar.server.security.operations import NamespaceOperation, TopicOperation


@dataclass(frozen=True, slots=True)
class Open:
    """Everybody may do it, even without a role."""

    why: str
    """The reason why everybody may do it, for readers of the table."""


class Superuser(NamedTuple):
    """Only the superUserRoles may do it (PulsarWebResource.validateSuperUserAccess)."""


class TenantAdmin(NamedTuple):
    """Only administrators of the tenant and superusers may do it."""

    operation: str
    """A name of Java's TenantOperation."""


class OnNamespace(NamedTuple):
    """Administrators may do the operation, and roles with a grant that covers it."""

    operation: NamespaceOperation


class OnNamespacePolicy(NamedTuple):
    """Reads or writes a policy of a namespace, which only administrators of the tenant may do
    (validateNamespacePolicyOperation)."""

    policy: str
    """A name of Java's PolicyName."""
    write: bool = True


class OnTopic(NamedTuple):
    """Administrators may do the operation, and roles with a grant that covers it."""

    operation: TopicOperation


class OnTopicPolicy(NamedTuple):
    """Reads or writes a policy of a topic, which only administrators of the tenant may do
    (validateTopicPolicyOperation)."""

    policy: str
    """A name of Java's PolicyName."""
    write: bool = True


Demand = Open | Superuser | TenantAdmin | OnNamespace | OnNamespacePolicy | OnTopic | OnTopicPolicy


def policy_operation(demand: OnNamespacePolicy | OnTopicPolicy) -> str:
    """Returns the name of Java's PolicyOperation."""
    return "WRITE" if demand.write else "READ"
