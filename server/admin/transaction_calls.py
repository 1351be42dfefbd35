"""The calls about transaction coordinators and their transactions. Source: Transactions, TransactionsBase; answers
recorded from Pulsar 4.0.7.

The broker that runs a coordinator answers for it. A call about all coordinators is answered by any broker, which asks
the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote

from magnetar.server.admin import bodies
from magnetar.server.admin.over_bundles import each_at_once, first_fault_raised
from magnetar.server.admin.peer_calls import ask_peer
from magnetar.server.process.turns import in_portions
from magnetar.server.stats.internal_stats import ledger_stats
from magnetar.server.stats.transaction_stats import (
    coordinator_stats,
    stats_before_first_use,
    transaction_in_buffer,
    transaction_in_pending_acks,
    transaction_metadata,
)
from magnetar.server.transactions.coordinator import TransactionCoordinator
from magnetar.server.transactions.coordinator_rules import Transaction
from magnetar.server.transactions.coordinators import ASSIGN_TOPIC, TransactionCoordinators
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place
from pulsar_proto.errors import InvalidTopicName, InvalidTxnStatus, TransactionNotFound
from pulsar_proto.ids import TxnId
from pulsar_proto.names import TopicName, encode_local

BASE = "/admin/v3/transactions"
NOT_ENABLED = "This Broker is not configured with transactionCoordinatorEnabled=true."
SLOW_SHOWN_MAX = 1_000
"""How many slow transactions of a coordinator a call shows: the oldest ones."""
ABORT_SECONDS = 20.0
"""How long a call waits for the end of the transaction that it aborts."""
NUMBER_DIGITS_MAX = 20


def coordinators_of(call: Call) -> TransactionCoordinators:
    """Returns the coordinators of this broker. Raises Refusal 503 while transactions are switched off."""
    if call.broker.transactions is None:
        raise Refusal(503, NOT_ENABLED)
    return call.broker.transactions


def number_of(call: Call, part: str) -> int:
    """Returns a number in the path. Raises Refusal 404 for another text, as Apache's router does."""
    return _number(call.parts[part], part)


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX):
        raise Refusal(404, f"{what} is not a number: {text}")
    return int(text)


def txn_id_of(call: Call) -> TxnId:
    """Returns the transaction that the path names. Raises Refusal 404 when the path has no numbers there."""
    return TxnId(number_of(call, "most"), number_of(call, "least"))


# --- coordinators ----------------------------------------------------------------------------------------------------


async def coordinators(call: Call) -> Answer:
    """Lists the coordinators with the brokers that run them. A coordinator that nobody runs gets a broker."""
    made = coordinators_of(call)

    async def one(coordinator_id: int) -> Any:
        found = await call.broker.lookups.find_topic(ASSIGN_TOPIC.partition(coordinator_id))
        return {"id": coordinator_id, "brokerServiceUrl": found.broker.urls.broker or found.broker.urls.broker_tls}

    return first_fault_raised(await each_at_once(range(await made.count()), one))


async def stats(call: Call) -> Answer:
    """Answers with the state of one coordinator, or with those of all coordinators by their ids."""
    if call.query.get("coordinatorId"):
        return await _stats_here(call, _number(call.query["coordinatorId"], "coordinatorId"))
    return await _of_all(call, "coordinatorStats", _stats_here)


async def _stats_here(call: Call, coordinator_id: int) -> Any:
    if await _is_unused(call, coordinator_id):
        return stats_before_first_use(coordinator_id)
    return coordinator_stats(_coordinator(call, coordinator_id))


async def internal_stats(call: Call) -> Answer:
    """Answers with the managed ledger of a coordinator's log."""
    coordinator = _coordinator(call, number_of(call, "coordinator"))
    ledger = coordinator.log.ledger
    return {
        "transactionLogStats": {"managedLedgerName": ledger.name, "managedLedgerInternalStats": ledger_stats(ledger)}
    }


async def scale(call: Call) -> Answer:
    """Sets the number of coordinators. Clients use the new ones when they are made again."""
    made = coordinators_of(call)
    count = bodies.integer(bodies.present(bodies.parse(call.body)), what="the number of coordinators")
    if count <= await made.count():
        raise Refusal(
            406, "Number of transaction coordinators should be more than the current number of transaction coordinator"
        )
    await made.scale(count)
    return NO_CONTENT


async def _is_unused(call: Call, coordinator_id: int) -> bool:
    """Whether it is a coordinator of a standalone server that has had no transaction yet."""
    made = coordinators_of(call)
    return not made.are_in_use and coordinator_id < await made.count()


def _coordinator(call: Call, coordinator_id: int) -> TransactionCoordinator:
    """Returns a coordinator that this broker runs. Raises Refusal 404 when it is not loaded, which it is not before a
    standalone server's first transaction, or there is none."""
    coordinator = coordinators_of(call).loaded.get(coordinator_id)
    if coordinator is None:
        raise Refusal(404, f"Transaction coordinator not found! coordinator id : {coordinator_id}")
    return coordinator


async def _of_all(call: Call, path: str, here: Callable[[Call, int], Awaitable[Any]]) -> Mapping[str, Any]:
    """Returns the answers for all coordinators by their ids. `here` makes the answer for one of this broker, and the
    call of that path with the parameter `coordinatorId` gets those of other brokers."""
    made = coordinators_of(call)

    async def one(coordinator_id: int) -> tuple[str, Any]:
        if made.runs_here(coordinator_id):
            return str(coordinator_id), await here(call, coordinator_id)
        owner = (await call.broker.lookups.find_topic(ASSIGN_TOPIC.partition(coordinator_id))).broker
        asked = {"coordinatorId": str(coordinator_id)}
        return str(coordinator_id), await ask_peer(call.broker, owner, "GET", f"{BASE}/{path}", asked)

    return dict(first_fault_raised(await each_at_once(range(await made.count()), one)))


# --- transactions ----------------------------------------------------------------------------------------------------


async def metadata(call: Call) -> Answer:
    """Answers with a transaction: its state, and what its topics and subscriptions know of it."""
    txn_id = txn_id_of(call)
    coordinator = _coordinator(call, txn_id.most)
    return await _metadata_of(call, _transaction(coordinator, txn_id))


async def slow_transactions(call: Call) -> Answer:
    """Answers with the transactions that began longer ago than a number of milliseconds, of one coordinator or all, by
    their ids. Apache's broker chooses by the time-out with which a transaction began instead."""
    number_of(call, "milliseconds")
    if call.query.get("coordinatorId"):
        return await _slow_here(call, _number(call.query["coordinatorId"], "coordinatorId"))
    found = await _of_all(call, f"slowTransactions/{call.parts['milliseconds']}", _slow_here)
    return {txn_id: transaction for each in found.values() for txn_id, transaction in each.items()}


async def _slow_here(call: Call, coordinator_id: int) -> Mapping[str, Any]:
    if await _is_unused(call, coordinator_id):
        return {}
    coordinator = _coordinator(call, coordinator_id)
    before_ms = call.broker.service.managed_ledgers.clock_ms() - number_of(call, "milliseconds")
    slow = islice((each for each in list(coordinator.table) if each.started_ms < before_ms), SLOW_SHOWN_MAX)
    return {str(each.txn_id): await _metadata_of(call, each) async for each in in_portions(slow)}


async def abort(call: Call) -> Answer:
    """Aborts a transaction, and answers when it has ended everywhere."""
    txn_id = txn_id_of(call)
    coordinator = _coordinator(call, txn_id.most)
    _transaction(coordinator, txn_id)
    try:
        async with asyncio.timeout(ABORT_SECONDS):
            await coordinator.end(txn_id, commit=False)
    except InvalidTxnStatus as error:
        raise Refusal(409, str(error)) from error
    except TimeoutError:
        raise Refusal(
            503, f"Transaction {txn_id} is being aborted, but not all of its topics and subscriptions have answered yet"
        ) from None
    return NO_CONTENT


def _transaction(coordinator: TransactionCoordinator, txn_id: TxnId) -> Transaction:
    """Raises Refusal 404 for a transaction that is not alive."""
    try:
        return coordinator.table.get(txn_id)
    except TransactionNotFound as error:
        raise Refusal(404, str(error)) from error


async def _metadata_of(call: Call, transaction: Transaction) -> Any:
    txn_id, participants = transaction.txn_id, list(transaction.subscriptions)
    produced = await each_at_once(transaction.partitions, lambda topic: _in_buffer(call, topic, txn_id))
    pending = await each_at_once(participants, lambda where: _in_pending_acks(call, *where, txn_id))
    first_fault_raised([*produced, *pending])
    acked: dict[str, dict[str, Any]] = {}
    for (topic, subscription), found in zip(participants, pending, strict=True):
        acked.setdefault(topic, {})[subscription] = found
    return transaction_metadata(transaction, dict(zip(transaction.partitions, produced, strict=True)), acked)


async def _in_buffer(call: Call, topic: str, txn_id: TxnId) -> Any:
    """Returns what a topic of any broker knows of a transaction; nothing for a topic that does not exist."""
    name = _persistent_name(topic)
    if name is None:
        return {}
    if not call.broker.ownership.owns(name):
        return await _ask_owner(call, name, "transactionInBufferStats", (), txn_id)
    loaded = call.broker.service.loaded(name)
    return {} if loaded is None else transaction_in_buffer(loaded, txn_id)


async def _in_pending_acks(call: Call, topic: str, subscription: str, txn_id: TxnId) -> Any:
    """Returns what a subscription of any broker knows of a transaction; nothing for one that does not exist."""
    name = _persistent_name(topic)
    if name is None:
        return {}
    if not call.broker.ownership.owns(name):
        return await _ask_owner(call, name, "transactionInPendingAckStats", (subscription,), txn_id)
    loaded = call.broker.service.loaded(name)
    found = None if loaded is None else loaded.subscriptions.get(subscription)
    return {} if found is None else transaction_in_pending_acks(found, txn_id)


async def _ask_owner(call: Call, name: TopicName, path: str, further: Iterable[str], txn_id: TxnId) -> Any:
    """Makes a call at the topic's owner. Returns nothing if the owner has no such topic or subscription."""
    owner = (await call.broker.lookups.find_topic(name)).broker
    segments = (name.tenant, *name.namespace.split("/")[1:], encode_local(name.local_name), *map(_quoted, further))
    target = f"{BASE}/{path}/{'/'.join(segments)}/{txn_id.most}/{txn_id.least}"
    try:
        return await ask_peer(call.broker, owner, "GET", target)
    except Refusal as refusal:
        if refusal.status != 404:
            raise
        return {}


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _persistent_name(topic: str) -> TopicName | None:
    """Returns the name of a participant, or None for a text that names no persistent topic, which coordinators take,
    too."""
    try:
        name = TopicName.parse(topic)
    except InvalidTopicName:
        return None
    return name if name.is_persistent else None


ROUTES = (
    Route("GET", f"{BASE}/coordinators", coordinators, SUPERUSER, Place.ANY_BROKER),
    Route("GET", f"{BASE}/coordinatorStats", stats, SUPERUSER, Place.COORDINATOR),
    Route("GET", f"{BASE}/coordinatorInternalStats/{{coordinator}}", internal_stats, SUPERUSER, Place.COORDINATOR),
    Route("GET", f"{BASE}/transactionMetadata/{{most}}/{{least}}", metadata, SUPERUSER, Place.COORDINATOR),
    Route("GET", f"{BASE}/slowTransactions/{{milliseconds}}", slow_transactions, SUPERUSER, Place.COORDINATOR),
    Route("POST", f"{BASE}/transactionCoordinator/replicas", scale, SUPERUSER, Place.ANY_BROKER),
    Route("POST", f"{BASE}/abortTransaction/{{most}}/{{least}}", abort, SUPERUSER, Place.COORDINATOR),
)
