"""The commands of transactions: those of clients to a coordinator, and those of a coordinator to topics and
subscriptions.

Source: ServerCnx.handleTcClientConnectRequest, handleNewTxn, handleAddPartitionToTxn, handleAddSubscriptionToTxn,
handleEndTxn, handleEndTxnOnPartition, handleEndTxnOnSubscription.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from magnetar.server.broker.transaction_participants import LocalParticipants
from magnetar.server.protocol.command_handler import CommandHandler
from magnetar.server.transactions.coordinator import TransactionCoordinator
from pulsar_proto.errors import TransactionNotFound
from pulsar_proto.ids import TxnId, signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import error_frame, simple_frame
from pulsar_proto.wire.frame_encoders import transaction_response_frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection
    from magnetar.server.transactions.coordinators import TransactionCoordinators

_Work = Callable[["Connection", "TransactionCoordinators", Any], Awaitable[TxnId | None]]
"""Does the work of one command. The result is the id that the response names, if it names one. The call and the result
raise PulsarError. The work of a command that each transaction has is a future, which costs no task."""


def _handler(command_type: int, field: str, work: _Work) -> CommandHandler:
    """Returns the handler of a command. The response has the number after the command's own, and either the ids or an
    error. While transactions are off, the answer is an ERROR instead (ServerCnx.checkTransactionEnableAndSendError)."""
    response_field = f"{field.removesuffix('Request')}Response"

    def response(command: Any, **fields: Any) -> bytes:
        answer = pb.BaseCommand(type=command_type + 1)  # type: ignore[arg-type]
        body = getattr(answer, response_field)
        body.request_id = command.request_id
        for name, value in fields.items():
            setattr(body, name, value)
        return simple_frame(answer)

    def respond(cnx: "Connection", command: Any, txn_id: TxnId | None) -> None:
        if txn_id is None:
            cnx.write(response(command))
        else:
            cnx.write(transaction_response_frame(command_type + 1, command.request_id, txn_id.least, txn_id.most))

    def run(cnx: "Connection", command: Any) -> Awaitable[TxnId | None] | None:
        coordinators = cnx.broker.transactions
        if coordinators is None:
            cnx.write(error_frame(command.request_id, pb.NotAllowedError, "Transactions are not enabled."))
            return None
        return work(cnx, coordinators, command)

    def refuse(command: Any, code: pb.ServerError.ValueType, text: str) -> bytes:
        ids: dict[str, int] = {}
        if isinstance(command, pb.CommandNewTxn):
            ids = {"txnid_most_bits": command.tc_id}
        elif not isinstance(command, pb.CommandTcClientConnectRequest):
            ids = _id_fields(_txn_id(command))
        return response(command, error=code, message=text, **ids)

    return CommandHandler(field, run, refuse, respond, changes_state=True)


# --- commands to a coordinator ---------------------------------------------------------------------------------------


async def _connect(cnx: "Connection", coordinators: "TransactionCoordinators", command: Any) -> None:
    """Answers when the coordinator is loaded here. Raises ServiceNotReady when another broker runs it."""
    await coordinators.connect(command.tc_id)


def _begin(cnx: "Connection", coordinators: "TransactionCoordinators", command: Any) -> Awaitable[TxnId]:
    """Begins a transaction, which belongs to the client's role. Raises TooManyRequests, and the errors of
    `TransactionCoordinators.get_to_begin`."""
    coordinator = coordinators.loaded.get(command.tc_id)
    if coordinator is None:
        return _load_and_begin(cnx, coordinators, command)
    return coordinator.new(command.txn_ttl_millis, _role(cnx))


async def _load_and_begin(cnx: "Connection", coordinators: "TransactionCoordinators", command: Any) -> TxnId:
    coordinator = await coordinators.get_to_begin(command.tc_id)
    return await coordinator.new(command.txn_ttl_millis, _role(cnx))


_Change = Callable[[TransactionCoordinator, TxnId, Any], "asyncio.Future[TxnId]"]
"""Changes the transaction that a command names."""


def _add_partitions(coordinator: TransactionCoordinator, txn_id: TxnId, command: Any) -> "asyncio.Future[TxnId]":
    """Adds the partitions that a transaction is about to publish to."""
    return coordinator.add_partitions(txn_id, command.partitions)


def _add_subscriptions(coordinator: TransactionCoordinator, txn_id: TxnId, command: Any) -> "asyncio.Future[TxnId]":
    """Adds the subscriptions in which a transaction is about to acknowledge messages."""
    return coordinator.add_subscriptions(txn_id, [(each.topic, each.subscription) for each in command.subscription])


def _end(coordinator: TransactionCoordinator, txn_id: TxnId, command: Any) -> "asyncio.Future[TxnId]":
    """Ends a transaction, which is answered when it has ended on all its topics and subscriptions."""
    return coordinator.begin_end(txn_id, commit=command.txn_action == pb.COMMIT)


def _of_owner(change: _Change) -> _Work:
    """Returns the work of a command that changes a transaction. It raises the errors of the change,
    TransactionCoordinatorNotFound, and TransactionNotFound for a transaction that is unknown, has ended or belongs to
    somebody else (TransactionMetadataStoreService.verifyTxnOwnership)."""

    def work(cnx: "Connection", coordinators: "TransactionCoordinators", command: Any) -> Awaitable[TxnId]:
        txn_id = _txn_id(command)
        coordinator = coordinators.get(txn_id.most)
        owner = coordinator.table.get(txn_id).owner
        if owner is None or owner == _role(cnx):
            return change(coordinator, txn_id, command)
        return as_superuser(cnx, coordinator, txn_id, command)

    async def as_superuser(
        cnx: "Connection", coordinator: TransactionCoordinator, txn_id: TxnId, command: Any
    ) -> TxnId:
        if not await _is_superuser(cnx):
            raise TransactionNotFound(
                f"Client ({_role(cnx)}) is neither the owner of the transaction {txn_id} nor a super user"
            )
        return await asyncio.shield(change(coordinator, txn_id, command))

    return work


# --- commands of a coordinator ---------------------------------------------------------------------------------------


async def _end_on_partition(cnx: "Connection", coordinators: "TransactionCoordinators", command: Any) -> TxnId:
    """Ends a transaction on a topic. Raises PulsarError when that cannot be done now."""
    txn_id = await _checked_end(cnx, command)
    commit, low_watermark = command.txn_action == pb.COMMIT, signed64(command.txnid_least_bits_of_low_watermark)
    await LocalParticipants(cnx.broker).end_on_partition(command.topic, txn_id, commit, low_watermark)
    return txn_id


async def _end_on_subscription(cnx: "Connection", coordinators: "TransactionCoordinators", command: Any) -> TxnId:
    """Ends a transaction on a subscription. Raises PulsarError when that cannot be done now."""
    txn_id, where = await _checked_end(cnx, command), command.subscription
    commit, low_watermark = command.txn_action == pb.COMMIT, signed64(command.txnid_least_bits_of_low_watermark)
    await LocalParticipants(cnx.broker).end_on_subscription(
        where.topic, where.subscription, txn_id, commit, low_watermark
    )
    return txn_id


async def _checked_end(cnx: "Connection", command: Any) -> TxnId:
    """Returns the transaction that a coordinator ends. Raises TransactionNotFound, with Apache's code, unless the
    client is a broker, which has a superuser's role."""
    txn_id = _txn_id(command)
    if not await _is_superuser(cnx):
        raise TransactionNotFound(f"Client ({_role(cnx)}) is not a super user and may not end the transaction {txn_id}")
    return txn_id


# --- who and which ---------------------------------------------------------------------------------------------------


def _txn_id(command: Any) -> TxnId:
    return TxnId(command.txnid_most_bits, command.txnid_least_bits)


def _id_fields(txn_id: TxnId) -> dict[str, int]:
    return {"txnid_least_bits": txn_id.least, "txnid_most_bits": txn_id.most}


def _role(cnx: "Connection") -> str | None:
    """Returns the role for which the connection acts, or None without authentication (ServerCnx.getPrincipal)."""
    principal = cnx.principal
    return None if principal is None else principal.original or principal.role


async def _is_superuser(cnx: "Connection") -> bool:
    """Returns whether the client may do what brokers do. Without authorization everybody may
    (ServerCnx.isSuperUser)."""
    security = cnx.broker.security
    if security is None or security.authorizer is None:
        return True
    assert cnx.principal is not None, "who is not authenticated does not get here"
    from magnetar.server.security.demands import Superuser  # loaded only where there is security

    return await security.authorizer.denied(cnx.principal, Superuser()) is None


_Type = pb.BaseCommand

COMMANDS: dict[int, CommandHandler] = {
    command_type: _handler(command_type, field, work)
    for command_type, field, work in (
        (_Type.TC_CLIENT_CONNECT_REQUEST, "tcClientConnectRequest", _connect),
        (_Type.NEW_TXN, "newTxn", _begin),
        (_Type.ADD_PARTITION_TO_TXN, "addPartitionToTxn", _of_owner(_add_partitions)),
        (_Type.ADD_SUBSCRIPTION_TO_TXN, "addSubscriptionToTxn", _of_owner(_add_subscriptions)),
        (_Type.END_TXN, "endTxn", _of_owner(_end)),
        (_Type.END_TXN_ON_PARTITION, "endTxnOnPartition", _end_on_partition),
        (_Type.END_TXN_ON_SUBSCRIPTION, "endTxnOnSubscription", _end_on_subscription),
    )
}
"""The handlers of all commands of transactions."""
