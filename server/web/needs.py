"""The permissions that the callers of routes need, as data. Each route declares its `Need`, which `authorization`
checks.

Operations are named as Java's enums name them (TenantOperation, NamespaceOperation, TopicOperation, PolicyName). The
variable segments of the path (`tenant`, `namespace`, `domain`, `topic`, `subscription`) name the object of the
operation.
"""

from enum import Enum
from typing import Final, NamedTuple


class Scope(Enum):
    """The kind of permission that a route asks for."""

    EVERYBODY = "everybody"
    """The call is open to everybody, authenticated or not."""
    SUPERUSER = "superuser"
    TENANT_ADMIN = "tenant admin"
    """An administrator of the tenant, or a superuser."""
    NAMESPACE = "namespace operation"
    NAMESPACE_POLICY = "namespace policy operation"
    TOPIC = "topic operation"
    TOPIC_POLICY = "topic policy operation"


class Need(NamedTuple):
    """The permission that the caller of a route needs."""

    scope: Scope
    operation: str = ""
    """The name of a member of the scope's enum in Java; for policies a PolicyName."""
    write: bool = False
    """The operation on a policy: True asks for PolicyOperation.WRITE, False for READ. The field has no meaning in other
    scopes."""


EVERYBODY: Final = Need(Scope.EVERYBODY)
SUPERUSER: Final = Need(Scope.SUPERUSER)
TENANT_ADMIN: Final = Need(Scope.TENANT_ADMIN)


def tenant_operation(operation: str) -> Need:
    """Asks for a TenantOperation. An administrator of the tenant may do all TenantOperations."""
    return Need(Scope.TENANT_ADMIN, operation)


def namespace(operation: str) -> Need:
    """Asks for a NamespaceOperation."""
    return Need(Scope.NAMESPACE, operation)


def topic(operation: str) -> Need:
    """Asks for a TopicOperation."""
    return Need(Scope.TOPIC, operation)


def namespace_policy(name: str, *, write: bool) -> Need:
    """Asks for reading or writing a policy of the namespace, by its PolicyName."""
    return Need(Scope.NAMESPACE_POLICY, name, write)


def topic_policy(name: str, *, write: bool) -> Need:
    """Asks for reading or writing a policy of the topic, by its PolicyName."""
    return Need(Scope.TOPIC_POLICY, name, write)
