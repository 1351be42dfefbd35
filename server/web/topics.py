"""One topic: partitions, stats, subscriptions, last message. Source: PersistentTopicsBase; real answers of 4.0.7."""

from typing import TYPE_CHECKING, Any

from pulsar_proto.names import TopicName
from server.handlers.lookup import partitions_of
from server.web.calls import Answer, Call, topic_of

if TYPE_CHECKING:
    from server.topics.topic import Topic

PERSISTENT = "persistent"
NON_PERSISTENT = "non-persistent"


async def partitions_of_persistent(call: Call) -> Answer:
    return await _partitions(call, topic_of(PERSISTENT, *call.parts))


async def partitions_of_non_persistent(call: Call) -> Answer:
    return await _partitions(call, topic_of(NON_PERSISTENT, *call.parts))


async def _partitions(call: Call, name: TopicName) -> Answer:
    """0 for a plain topic; a missing one is an error only when the asker does not want it created."""
    may_create = call.flag("checkAllowAutoCreation")
    return {"partitions": await partitions_of(call.broker, name, may_create=may_create), "deleted": False}


async def stats(call: Call) -> Answer:
    topic = await _topic(call)
    answer: dict[str, Any] = topic.stats()
    answer["ownerBroker"] = call.broker.broker_id
    if call.flag("excludePublishers"):
        answer["publishers"] = []
    if call.flag("excludeConsumers"):
        for subscription in answer["subscriptions"].values():
            subscription["consumers"] = []
    return answer


async def internal_stats(call: Call) -> Answer:
    return (await _topic(call)).internal_stats()


async def subscriptions(call: Call) -> Answer:
    return sorted((await _topic(call)).subscriptions)


async def last_message_id(call: Call) -> Answer:
    topic = await _topic(call)
    position, batch_index = await topic.last_message_id()
    answer = {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": topic.name.partition_index,
        "batchIndex": batch_index,
        "batchSize": 0,
    }
    if batch_index >= 0:
        answer |= {"outstandingAcksInSameBatch": 0, "originalBatchSize": 0}
    return answer


async def _topic(call: Call) -> "Topic":
    """Loads it where it exists. Raises TopicNotFound."""
    return await call.broker.service.get_topic(topic_of(PERSISTENT, *call.parts), create=False)
