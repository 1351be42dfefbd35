"""The permission that each command of the client protocol needs, and handlers that are called only when the client has
that permission.

`guarded` builds its table from `COMMANDS`, so a command without a rule cannot be handled. Texts are those of Apache's
broker, because client libraries show them.

Sources: ServerCnx.isTopicOperationAllowed, isNamespaceOperationAllowed and their callers.
"""

import logging
from collections.abc import Awaitable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from magnetar.metadata.errors import MetadataError
from magnetar.server.protocol.command_handler import CommandHandler
from magnetar.server.protocol.pending_creations import PendingCreation, PendingCreations
from magnetar.server.protocol.topic_names import topic_name
from magnetar.server.security.authorizer import Authorizer, TenantMissingError
from magnetar.server.security.demands import OnNamespace, OnTopic, Open
from magnetar.server.security.operations import NamespaceOperation, TopicOperation
from magnetar.server.security.principals import Principal, combination_fault
from pulsar_proto.errors import AuthorizationFault, ServiceNotReady, TopicNotFound
from pulsar_proto.names import NamespaceName, TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection

log = logging.getLogger(__name__)

_Type = pb.BaseCommand

HANDSHAKE = Open("it is how a peer says who it is, or that it lives")
ATTACHED = Open("it names a producer, consumer or watcher of this connection, whose creation was authorized")
OWN_TRANSACTION = Open("its handler lets only the transaction's owner and superusers touch a transaction")
SUPERUSERS_ONLY = Open("its handler refuses everybody but superusers, with the error that coordinators know")


class Rule(NamedTuple):
    """The permission that one command needs."""

    demand: Open | OnTopic | OnNamespace
    denied: str = ""
    """The text that a client gets, with AuthorizationError, when the request is not permitted."""


COMMANDS: dict[int, Rule] = {
    _Type.CONNECT: Rule(HANDSHAKE),
    _Type.AUTH_RESPONSE: Rule(HANDSHAKE),
    _Type.PING: Rule(HANDSHAKE),
    _Type.PONG: Rule(HANDSHAKE),
    _Type.LOOKUP: Rule(OnTopic(TopicOperation.LOOKUP), "Client is not authorized to Lookup"),
    _Type.PARTITIONED_METADATA: Rule(
        OnTopic(TopicOperation.LOOKUP), "Client is not authorized to Get Partition Metadata"
    ),
    _Type.PRODUCER: Rule(OnTopic(TopicOperation.PRODUCE), "Client is not authorized to Produce"),
    _Type.SEND: Rule(ATTACHED),
    _Type.CLOSE_PRODUCER: Rule(ATTACHED),
    _Type.SUBSCRIBE: Rule(OnTopic(TopicOperation.CONSUME), "Client is not authorized to subscribe"),
    _Type.CLOSE_CONSUMER: Rule(ATTACHED),
    _Type.UNSUBSCRIBE: Rule(ATTACHED),
    _Type.FLOW: Rule(ATTACHED),
    _Type.ACK: Rule(ATTACHED),
    _Type.REDELIVER_UNACKNOWLEDGED_MESSAGES: Rule(ATTACHED),
    _Type.SEEK: Rule(ATTACHED),
    _Type.GET_LAST_MESSAGE_ID: Rule(ATTACHED),
    _Type.CONSUMER_STATS: Rule(ATTACHED),
    _Type.GET_TOPICS_OF_NAMESPACE: Rule(
        OnNamespace(NamespaceOperation.GET_TOPICS), "Client is not authorized to GetTopicsOfNamespace"
    ),
    _Type.WATCH_TOPIC_LIST: Rule(
        OnNamespace(NamespaceOperation.GET_TOPICS), "Proxy Client is not authorized to watchTopicList"
    ),
    _Type.WATCH_TOPIC_LIST_CLOSE: Rule(ATTACHED),
    _Type.GET_SCHEMA: Rule(OnTopic(TopicOperation.GET_METADATA), "Client is not authorized to get schema"),
    _Type.GET_OR_CREATE_SCHEMA: Rule(OnTopic(TopicOperation.PRODUCE), "Client is not authorized to create schema"),
    _Type.NEW_TXN: Rule(OWN_TRANSACTION),
    _Type.ADD_PARTITION_TO_TXN: Rule(OWN_TRANSACTION),
    _Type.ADD_SUBSCRIPTION_TO_TXN: Rule(OWN_TRANSACTION),
    _Type.END_TXN: Rule(OWN_TRANSACTION),
    _Type.END_TXN_ON_PARTITION: Rule(SUPERUSERS_ONLY),
    _Type.END_TXN_ON_SUBSCRIPTION: Rule(SUPERUSERS_ONLY),
    _Type.TC_CLIENT_CONNECT_REQUEST: Rule(OWN_TRANSACTION),
}


def guarded(table: Mapping[int, CommandHandler], authorizer: Authorizer) -> dict[int, CommandHandler]:
    """Returns the table with each handler behind the rule of its command. Raises KeyError for a command without a
    rule."""
    made = {}
    for command, handler in table.items():
        rule = COMMANDS[command]
        is_open = isinstance(rule.demand, Open)
        made[command] = handler if is_open else handler._replace(run=_Guard(command, rule, handler, authorizer).run)
    return made


class _Guard:
    """Wraps the handler of one command. The wrapper asks the authorizer, and then runs the handler or refuses the
    command."""

    def __init__(self, command: int, rule: Rule, handler: CommandHandler, authorizer: Authorizer) -> None:
        self._command = command
        self._rule = rule
        self._handler = handler
        self._authorizer = authorizer

    def run(self, cnx: "Connection", body: Any) -> Coroutine[Any, Any, None]:
        if self._command == _Type.PRODUCER:
            return self._create(cnx, body, cnx.pending_producers, body.producer_id)
        if self._command == _Type.SUBSCRIBE:
            return self._create(cnx, body, cnx.pending_consumers, body.consumer_id)
        return self._when_allowed(cnx, body)

    def _create(
        self, cnx: "Connection", body: Any, pending: PendingCreations, attached_id: int
    ) -> Coroutine[Any, Any, None]:
        """Judges and handles a PRODUCER or SUBSCRIBE. Until the command is judged, the id of its producer or consumer
        is pending, so that a CLOSE can abandon the creation."""
        creation = pending.begin(attached_id)
        return self._create_when_allowed(cnx, body, pending, attached_id, creation)

    async def _create_when_allowed(
        self, cnx: "Connection", body: Any, pending: PendingCreations, attached_id: int, creation: PendingCreation
    ) -> None:
        try:
            await _check(cnx, self._rule, self._authorizer, body)
        finally:
            pending.end(attached_id, creation)
        if not creation.is_abandoned:  # The client has closed an abandoned creation, or is gone.
            await self._handle(cnx, body)

    async def _when_allowed(self, cnx: "Connection", body: Any) -> None:
        await _check(cnx, self._rule, self._authorizer, body)
        await self._handle(cnx, body)

    async def _handle(self, cnx: "Connection", body: Any) -> None:
        work = self._handler.run(cnx, body)
        if work is not None:
            await work


async def _check(cnx: "Connection", rule: Rule, authorizer: Authorizer, body: Any) -> None:
    """Returns when the client may run the command. Raises AuthorizationFault when the client may not, TopicNotFound for
    a tenant that does not exist, InvalidTopicName, and ServiceNotReady when the permissions cannot be read."""
    principal = _principal(cnx, body)
    if isinstance(rule.demand, OnNamespace):
        namespace = NamespaceName.parse(body.namespace)
        denied = await _ask(
            authorizer.denied(principal, rule.demand, tenant=namespace.tenant, namespace=str(namespace))
        )
        _refuse_if(denied, cnx, principal, rule, str(namespace))
        return
    assert isinstance(rule.demand, OnTopic)
    topic = topic_name(body.topic)
    subscription = body.subscription if isinstance(body, pb.CommandSubscribe) else None
    _refuse_if(await _ask_topic(authorizer, principal, rule.demand, topic, subscription), cnx, principal, rule, topic)
    if isinstance(body, pb.CommandProducer) and body.initial_subscription_name:
        demand = OnTopic(TopicOperation.SUBSCRIBE)
        denied = await _ask_topic(authorizer, principal, demand, topic, body.initial_subscription_name)
        _refuse_if(denied, cnx, principal, rule, topic)


def _principal(cnx: "Connection", body: Any) -> Principal:
    """Returns the principal for whom the command is. A proxy looks topics up for many clients over one connection, so
    each of these lookups names the client that it is for. Raises AuthorizationFault when the connection's role may not
    speak for that client."""
    principal = cnx.principal
    assert principal is not None, "who is not authenticated does not get here"
    if not isinstance(body, pb.CommandLookupTopic | pb.CommandPartitionedTopicMetadata) or not body.original_principal:
        return principal
    security = cnx.broker.security
    assert security is not None, "rules are security's"
    fault = combination_fault(principal.role, body.original_principal, security.proxy_roles, may_repeat=False)
    if fault is not None:
        log.warning("%s: role %s refused: %s", cnx.remote_address, principal, fault)
        raise AuthorizationFault("Invalid roles.")
    return Principal(principal.role, body.original_principal)


def _ask_topic(
    authorizer: Authorizer, principal: Principal, demand: OnTopic, topic: TopicName, subscription: str | None
) -> Awaitable[str | None]:
    return _ask(
        authorizer.denied(
            principal,
            demand,
            tenant=topic.tenant,
            namespace=topic.namespace,
            topic=topic,
            subscription=subscription,
        )
    )


async def _ask(judgement: Awaitable[str | None]) -> str | None:
    try:
        return await judgement
    except TenantMissingError:
        raise TopicNotFound("Tenant does not exist") from None
    except MetadataError as error:
        raise ServiceNotReady(f"Permissions cannot be read: {error}") from error


def _refuse_if(
    denied: str | None, cnx: "Connection", principal: Principal, rule: Rule, subject: TopicName | str
) -> None:
    if denied is None:
        return
    assert isinstance(rule.demand, OnTopic | OnNamespace)
    operation = rule.demand.operation.name
    log.warning(
        "%s: denied %s on %s to role %s%s", cnx.remote_address, operation, subject, principal, denied and f": {denied}"
    )
    raise AuthorizationFault(denied if denied.startswith("Failed to create consumer") else rule.denied)
