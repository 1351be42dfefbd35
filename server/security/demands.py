"""What a command or HTTP call needs, as data: each states exactly one of these, at one place.

Binary commands state theirs in `commands.COMMANDS`, HTTP calls in their routes. `authorizer` judges them.
"""

from dataclasses import dataclass
from typing import NamedTuple

from magnetar.server.security.operations import NamespaceOperation, TopicOperation


@dataclass(frozen=True, slots=True)
class Open:
    """Everybody may, also without a role. `why` says what makes that right."""

    why: str


class Superuser(NamedTuple):
    """One of superUserRoles (PulsarWebResource.validateSuperUserAccess)."""


class TenantAdmin(NamedTuple):
    """An administrator of the tenant, or a superuser. `operation`: a name of TenantOperation."""

    operation: str


class OnNamespace(NamedTuple):
    operation: NamespaceOperation


class OnNamespacePolicy(NamedTuple):
    """Reading or writing a namespace's policy: the tenant's administrators (validateNamespacePolicyOperation).
    `policy`: a name of PolicyName."""

    policy: str
    write: bool = True


class OnTopic(NamedTuple):
    operation: TopicOperation


class OnTopicPolicy(NamedTuple):
    """Reading or writing a topic's policy: the tenant's administrators (validateTopicPolicyOperation)."""

    policy: str
    write: bool = True


Demand = Open | Superuser | TenantAdmin | OnNamespace | OnNamespacePolicy | OnTopic | OnTopicPolicy


def policy_operation(demand: OnNamespacePolicy | OnTopicPolicy) -> str:
    """PolicyOperation's name."""
    return "WRITE" if demand.write else "READ"
