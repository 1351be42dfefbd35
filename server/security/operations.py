"""The operations that a role may ask for, and the grants that cover each of them: pure rules.

The operations have the names of Java's enums TopicOperation and NamespaceOperation, because the names appear in texts
that clients get over HTTP, and in the log. Source: PulsarAuthorizationProvider.allowTopicOperationAsync and its
siblings.
"""

from enum import Enum, StrEnum


class AuthAction(StrEnum):
    """The actions that a namespace or a topic may grant to a role (AuthAction)."""

    PRODUCE = "produce"
    CONSUME = "consume"
    FUNCTIONS = "functions"
    SOURCES = "sources"
    SINKS = "sinks"
    PACKAGES = "packages"


_EITHER = frozenset({AuthAction.PRODUCE, AuthAction.CONSUME})
_PRODUCE = frozenset({AuthAction.PRODUCE})
_CONSUME = frozenset({AuthAction.CONSUME})
_ADMIN: frozenset[AuthAction] = frozenset()
"""The grants of an operation that no grant covers. Only the tenant's administrators and superusers may do such an
operation."""


class Operation(Enum):
    """The base of the enums of operations. A member's value holds the grants that cover the operation, of which a role
    needs one, and a number: without the number, Enum would take members with equal grants for one member."""

    @property
    def grants(self) -> frozenset[AuthAction]:
        grants: frozenset[AuthAction] = self.value[1]
        return grants


class TopicOperation(Operation):
    """The operations on a topic."""

    LOOKUP = 1, _EITHER
    GET_STATS = 2, _EITHER
    GET_METADATA = 3, _EITHER
    PRODUCE = 4, _PRODUCE
    CONSUME = 5, _CONSUME
    SUBSCRIBE = 6, _CONSUME
    UNSUBSCRIBE = 7, _CONSUME
    GET_SUBSCRIPTIONS = 8, _CONSUME
    SKIP = 9, _CONSUME
    EXPIRE_MESSAGES = 10, _CONSUME
    PEEK_MESSAGES = 11, _CONSUME
    RESET_CURSOR = 12, _CONSUME
    GET_BACKLOG_SIZE = 13, _CONSUME
    SET_REPLICATED_SUBSCRIPTION_STATUS = 14, _CONSUME
    GET_REPLICATED_SUBSCRIPTION_STATUS = 15, _CONSUME
    TERMINATE = 16, _ADMIN
    COMPACT = 17, _ADMIN
    OFFLOAD = 18, _ADMIN
    UNLOAD = 19, _ADMIN
    TRIM_TOPIC = 20, _ADMIN
    DELETE_METADATA = 21, _ADMIN
    UPDATE_METADATA = 22, _ADMIN
    GET_BUNDLE_RANGE = 23, _ADMIN


class NamespaceOperation(Operation):
    """The operations on a namespace."""

    GET_TOPIC = 1, _EITHER
    GET_TOPICS = 2, _EITHER
    GET_BUNDLE = 3, _EITHER
    UNSUBSCRIBE = 4, _CONSUME
    TRIM_TOPIC = 5, _CONSUME
    CLEAR_BACKLOG = 6, _CONSUME
    PACKAGES = 7, frozenset({AuthAction.PACKAGES})
    CREATE_TOPIC = 8, _ADMIN
    DELETE_TOPIC = 9, _ADMIN
    ADD_BUNDLE = 10, _ADMIN
    DELETE_BUNDLE = 11, _ADMIN
    GRANT_PERMISSION = 12, _ADMIN
    GET_PERMISSION = 13, _ADMIN
    REVOKE_PERMISSION = 14, _ADMIN
