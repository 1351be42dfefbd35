"""The calls that start the compaction of a topic, tell its status, and give compaction up. Source:
PersistentTopicsBase.internalTriggerCompaction, internalCompactionStatusAsync, internalDeleteSubscriptionAsync; answers
recorded from Pulsar 4.0.7."""

from magnetar.server.admin import partition_outcome_rules as rules
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.over_partitions import over_partitions
from magnetar.server.admin.subscription_requests import SUBSCRIPTIONS, topics_of
from magnetar.server.admin.topic_calls import loaded, partitions_of
from magnetar.server.compaction.topic_compaction import COMPACTION_CURSOR, AlreadyRunning, TopicCompaction
from magnetar.server.topics.topic import Topic
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from pulsar_proto.errors import TopicNotFound


@over_partitions(rules.started)
async def trigger(call: Call) -> Answer:
    """Starts the compaction of a topic, or of each existing partition of a partitioned topic. Partitions that are being
    compacted already are left out. Raises Refusal 409 when the topic, or every partition, is being compacted
    already."""
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


@over_partitions(rules.gone)
async def give_up(call: Call) -> Answer:
    """Deletes compaction's cursor, and with it the compacted data. Clients make this call by deleting a subscription of
    the cursor's name, because Apache's cursor of compaction is a subscription. When a compaction threshold is set, the
    topic will be compacted again. For a partitioned topic the cursors of all its partitions are deleted. Raises Refusal
    404 when there is no cursor."""
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
    Route("PUT", f"{TOPIC}/compaction", trigger, topic("COMPACT"), Place.TOPIC_OR_PARTITIONS),
    Route("GET", f"{TOPIC}/compaction", status, topic("COMPACT"), Place.TOPIC),
    # Other subscriptions are deleted with UNSUBSCRIBE, which every consumer may do. A consumer must not delete the
    # compacted data, which everybody reads.
    Route("DELETE", f"{SUBSCRIPTIONS}/{COMPACTION_CURSOR}", give_up, topic("COMPACT"), Place.TOPIC_OR_PARTITIONS),
)
