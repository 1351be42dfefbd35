"""The calls about a subscription's acknowledgements in transactions. Source: Transactions, TransactionsBase; answers
recorded from Pulsar 4.0.7."""

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import topic_of
from magnetar.server.admin.topic_calls import loaded
from magnetar.server.admin.transaction_calls import BASE, coordinators_of, number_of, txn_id_of
from magnetar.server.stats.internal_stats import ledger_stats
from magnetar.server.stats.pending_ack_stats import pending_ack_stats, position_state
from magnetar.server.stats.transaction_stats import transaction_in_pending_acks
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.web.calls import Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.ids import Position


async def stats(call: Call) -> Answer:
    """Answers with the state of a subscription's log, and with how many transactions are open in it."""
    low_watermarks = call.query.get("lowWaterMarks", "").lower() == "true"
    return pending_ack_stats((await _subscription(call)).pending_acks, low_watermarks=low_watermarks)


async def internal_stats(call: Call) -> Answer:
    """Answers with the managed ledger of a subscription's log. Raises Refusal 503 when there is none."""
    pending = (await _subscription(call)).pending_acks
    if pending is None or pending.log is None:
        raise Refusal(503, "Pending ack have not init success!")
    ledger = pending.log.ledger
    return {
        "pendingAckLogStats": {"managedLedgerName": ledger.name, "managedLedgerInternalStats": ledger_stats(ledger)}
    }


async def of_transaction(call: Call) -> Answer:
    """Answers with what a transaction has acknowledged cumulatively on a subscription."""
    txn_id = txn_id_of(call)
    return transaction_in_pending_acks(await _subscription(call), txn_id)


async def of_position(call: Call) -> Answer:
    """Answers with whether a transaction holds a message."""
    position = Position(number_of(call, "ledger"), number_of(call, "entry"))
    text = call.query.get("batchIndex")
    batch_index = None if text is None else bodies.integer(text, what="batchIndex")
    if batch_index is not None and batch_index < 0:
        raise Refusal(400, f"batchIndex is negative: {batch_index}")
    return {"state": position_state(await _subscription(call), position, batch_index).value}


async def _subscription(call: Call) -> Subscription:
    """Returns the subscription that the path names. Raises Refusal 503 while transactions are switched off, and 404
    when there is no such topic or subscription."""
    coordinators_of(call)
    name, subscription = topic_of(call), call.parts["subscription"]
    try:
        found = (await loaded(call)).subscriptions.get(subscription)
    except TopicNotFound:
        raise Refusal(404, f"Topic not found {name.full}") from None
    if found is None:
        raise Refusal(404, f"{name.full} not found subscription : {subscription}")
    return found


SUBSCRIPTION = "{tenant}/{namespace}/{topic}/{subscription}"
GET_STATS = topic("GET_STATS")

ROUTES = (
    Route("GET", f"{BASE}/pendingAckStats/{SUBSCRIPTION}", stats, GET_STATS, Place.TOPIC),
    Route("GET", f"{BASE}/pendingAckInternalStats/{SUBSCRIPTION}", internal_stats, GET_STATS, Place.TOPIC),
    Route(
        "GET",
        f"{BASE}/transactionInPendingAckStats/{SUBSCRIPTION}/{{most}}/{{least}}",
        of_transaction,
        GET_STATS,
        Place.TOPIC,
    ),
    Route(
        "GET",
        f"{BASE}/positionStatsInPendingAck/{SUBSCRIPTION}/{{ledger}}/{{entry}}",
        of_position,
        GET_STATS,
        Place.TOPIC,
    ),
)
