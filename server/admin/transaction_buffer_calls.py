"""The calls about the transactions of a topic. Source: Transactions, TransactionsBase; answers recorded from Pulsar
4.0.7.

The broker that has the topic answers. The system topics with its snapshots may be at other brokers, which are asked.
"""

from typing import Any

from magnetar.server.admin.call_paths import topic_of
from magnetar.server.admin.peer_calls import ask_peer
from magnetar.server.admin.topic_calls import loaded
from magnetar.server.admin.transaction_calls import BASE, coordinators_of, txn_id_of
from magnetar.server.stats.transaction_buffer_stats import buffer_stats, system_topic_stats
from magnetar.server.stats.transaction_stats import transaction_in_buffer
from magnetar.server.topics.topic import Topic
from magnetar.server.topics.transactions.snapshot_table import SnapshotKind
from magnetar.server.topics.transactions.transaction_buffer import TransactionBuffer
from magnetar.server.web.calls import Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from pulsar_proto.names import TopicName

TOPIC = "{tenant}/{namespace}/{topic}"


async def in_buffer(call: Call) -> Answer:
    """Answers with what the topic knows of a transaction."""
    coordinators_of(call)
    txn_id = txn_id_of(call)
    held = await loaded(call)
    _buffer(held)
    return transaction_in_buffer(held, txn_id)


async def stats(call: Call) -> Answer:
    coordinators_of(call)
    buffer = _buffer(await loaded(call))
    return buffer_stats(buffer, low_watermarks=call.flag("lowWaterMarks"), segments=call.flag("segmentStats"))


async def internal_stats(call: Call) -> Answer:
    """Answers with the managed ledgers of the system topics that hold the topic's snapshots."""
    coordinators_of(call)
    type_name = _buffer(await loaded(call)).snapshots.type_name
    if type_name == "Single":
        kinds = {"singleSnapshotSystemTopicInternalStats": SnapshotKind.WHOLE}
    else:
        kinds = {
            "segmentInternalStats": SnapshotKind.SEGMENTS,
            "segmentIndexInternalStats": SnapshotKind.INDEXES,
        }
    namespace = topic_of(call).namespace
    shown = {
        field: await _system_topic(call, TopicName.parse(f"persistent://{namespace}/{kind.value}"))
        for field, kind in kinds.items()
    }
    return {"snapshotType": type_name, **shown}


def _buffer(held: Topic) -> TransactionBuffer:
    transactions = held.begin_transactions()
    if transactions is None:
        raise Refusal(405, f"{held.name.full} is a system topic and takes no messages of transactions")
    return transactions


async def _system_topic(call: Call, name: TopicName) -> Any:
    """Raises Refusal 404 when there is no such topic, because no topic of the namespace has a snapshot."""
    broker = call.broker
    if broker.ownership.owns(name) or broker.ownership.is_sole:
        if not await broker.service.catalog.topic_exists(name):
            raise Refusal(404, f"No topic of {name.namespace} has a snapshot of transactions")
        return system_topic_stats(await broker.service.get_topic(name, create=False))
    owner = (await broker.lookups.find_topic(name)).broker
    path = f"/admin/v2/persistent/{name.namespace}/{name.local_name}/internalStats"
    return {
        "managedLedgerName": name.local_name,
        "managedLedgerInternalStats": await ask_peer(broker, owner, "GET", path),
    }


GET_STATS = topic("GET_STATS")
OF_TOPIC = Place.TOPIC_OR_PARTITIONS
ROUTES = (
    Route("GET", f"{BASE}/transactionInBufferStats/{TOPIC}/{{most}}/{{least}}", in_buffer, GET_STATS, Place.TOPIC),
    Route("GET", f"{BASE}/transactionBufferStats/{TOPIC}", stats, GET_STATS, Place.TOPIC),
    Route("GET", f"{BASE}/transactionBufferInternalStats/{TOPIC}", internal_stats, GET_STATS, OF_TOPIC),
)
