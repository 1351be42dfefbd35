"""Compaction on request, how it went, and its end. Source: PersistentTopicsBase.internalTriggerCompaction,
internalCompactionStatusAsync, internalDeleteSubscriptionAsync; real answers of 4.0.7."""

from magnetar.server.admin.paths import TOPIC, topic_of
from magnetar.server.admin.subscription_calls import SUBSCRIPTIONS, topics_of
from magnetar.server.admin.topic_calls import loaded, partitions_of
from magnetar.server.compaction.topic_compaction import COMPACTION_CURSOR, AlreadyRunning, TopicCompaction
from magnetar.server.topics.topic import Topic
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from pulsar_proto.errors import TopicNotFound


async def trigger(call: Call) -> Answer:
    """Of a partitioned topic each partition that exists; one that is being compacted already keeps none from it."""
    name = topic_of(call)
    _check_persistent(call)
    count = await partitions_of(call, name)
    if not count:
        try:
            _compaction(await loaded(call)).trigger()
        except AlreadyRunning as error:
            raise Refusal(409, str(error)) from error
        return NO_CONTENT
    busy = 0
    for index in range(count):
        try:
            _compaction(await call.broker.service.get_topic(name.partition(index), create=False)).trigger()
        except TopicNotFound:
            continue
        except AlreadyRunning:
            busy += 1
    if busy == count:
        raise Refusal(409, str(AlreadyRunning()))
    return NO_CONTENT


async def status(call: Call) -> Answer:
    name = topic_of(call)
    _check_persistent(call)
    if await partitions_of(call, name):
        raise TopicNotFound(f"Topic {name.full} not found")
    found = _compaction(await loaded(call)).status
    return {"status": found.state.value, "lastError": found.last_error}


async def give_up(call: Call) -> Answer:
    """As if compaction's cursor were a subscription, which it is with Apache: what is compacted is deleted with it. A
    threshold that is set begins anew. Of a partitioned topic in all partitions that have one."""
    _check_persistent(call)
    held = [each.compaction for each in await topics_of(call)]
    found = [each for each in held if each is not None and each.cursor is not None]
    if not found:
        raise Refusal(404, f"Subscription {COMPACTION_CURSOR} not found for topic {topic_of(call).full}")
    for compaction in found:
        await compaction.give_up()
    return NO_CONTENT


def _check_persistent(call: Call) -> None:
    if not topic_of(call).is_persistent:
        raise Refusal(405, "Compaction on a non-persistent topic is not allowed")


def _compaction(held: Topic) -> TopicCompaction:
    if held.compaction is None:
        raise Refusal(503, f"Topic {held.name.full} is not compacted by this broker")
    return held.compaction


ROUTES = (
    Route("PUT", f"{TOPIC}/compaction", trigger, topic("COMPACT")),
    Route("GET", f"{TOPIC}/compaction", status, topic("COMPACT")),
    # Who may only consume must not delete what everybody reads: not the need of other subscriptions' deletion.
    Route("DELETE", f"{SUBSCRIPTIONS}/{COMPACTION_CURSOR}", give_up, topic("COMPACT")),
)
