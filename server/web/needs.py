"""What a call needs to be allowed, as data: each route declares it, authorization reads it.

Operations are named as Java's enums name them (TenantOperation, NamespaceOperation, TopicOperation, PolicyName). What
they are about stands in the path's parts: `tenant`, `namespace`, `domain`, `topic`, `subscription`.
"""

from enum import Enum
from typing import Final, NamedTuple


class Scope(Enum):
    EVERYBODY = "everybody"
    """Nothing is asked."""
    SUPERUSER = "superuser"
    TENANT_ADMIN = "tenant admin"
    """An administrator of the tenant, or a superuser."""
    NAMESPACE = "namespace operation"
    NAMESPACE_POLICY = "namespace policy operation"
    TOPIC = "topic operation"
    TOPIC_POLICY = "topic policy operation"


class Need(NamedTuple):
    scope: Scope
    operation: str = ""
    """The member's name in the scope's enum; a PolicyName for policies."""
    write: bool = False
    """Of policies: PolicyOperation.WRITE, else READ."""


EVERYBODY: Final = Need(Scope.EVERYBODY)
SUPERUSER: Final = Need(Scope.SUPERUSER)
TENANT_ADMIN: Final = Need(Scope.TENANT_ADMIN)


def tenant_operation(operation: str) -> Need:
    """A tenant operation: the tenant's administrators may all of them."""
    return Need(Scope.TENANT_ADMIN, operation)


def namespace(operation: str) -> Need:
    return Need(Scope.NAMESPACE, operation)


def topic(operation: str) -> Need:
    return Need(Scope.TOPIC, operation)


def namespace_policy(name: str, *, write: bool) -> Need:
    return Need(Scope.NAMESPACE_POLICY, name, write)


def topic_policy(name: str, *, write: bool) -> Need:
    return Need(Scope.TOPIC_POLICY, name, write)
