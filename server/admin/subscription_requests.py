"""What the calls on subscriptions read from their requests: the subscriptions that a path names, numbers in the path,
and the message that a body names."""

from typing import TYPE_CHECKING, Any, NamedTuple

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.topic_calls import loaded, partitions_of
from magnetar.server.process.turns import in_portions
from magnetar.server.web.calls import Call, Refusal
from pulsar_proto.ids import EARLIEST, LATEST, Position

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.subscription import Subscription
    from magnetar.server.topics.topic import Topic

SUBSCRIPTIONS = f"{TOPIC}/subscription"
SUBSCRIPTION = f"{SUBSCRIPTIONS}/{{subscription}}"


class MessageId(NamedTuple):
    """The message that a body names, as Java's MessageIdImpl or ResetCursorData."""

    position: Position
    properties: dict[str, str]
    is_excluded: bool = False
    batch_index: int = -1


async def topics_of(call: Call) -> "list[Topic]":
    """Loads the call's topic, or all partitions of the topic. Raises TopicNotFound when it does not exist."""
    name = topic_of(call)
    count = await partitions_of(call, name)
    if not count:
        return [await loaded(call)]
    service = call.broker.service
    return [await service.get_topic(name.partition(index), create=True) async for index in in_portions(range(count))]


async def subscription_of(call: Call) -> "Subscription":
    """Returns the call's subscription of a topic. Raises TopicNotFound, and Refusal 404 when the subscription does not
    exist."""
    return named(await loaded(call), call.parts["subscription"])


async def subscriptions_of(call: Call) -> "list[Subscription]":
    """Returns the call's subscription of a topic, or of each of its partitions. Raises TopicNotFound, and Refusal 404
    when a subscription does not exist."""
    return [named(each, call.parts["subscription"]) for each in await topics_of(call)]


def named(held: "Topic", name: str) -> "Subscription":
    """Returns a subscription of a topic. Raises Refusal 404 when it does not exist."""
    subscription = held.subscriptions.get(name)
    if subscription is None:
        raise Refusal(404, f"Subscription {name} not found for topic {held.name.full}")
    return subscription


async def refuse_partitioned(call: Call, reason: str) -> None:
    """Raises Refusal 405 with the reason when the call's topic is partitioned, and TopicNotFound when its namespace
    does not exist."""
    if await partitions_of(call, topic_of(call)):
        raise Refusal(405, reason)


def number_of(call: Call, part: str, most: int) -> int:
    """Returns the number in a variable segment of the path. Raises Refusal 400."""
    return bodies.integer(call.parts[part], most, part)


def message_id_of(body: Any) -> MessageId:
    """Returns the message that a parsed body names: by an object, "earliest" or "latest". An empty body counts as
    "latest". Raises Refusal 400."""
    if body is bodies.ABSENT or body is None or body == "latest":
        return MessageId(LATEST, {})
    if body == "earliest":
        return MessageId(EARLIEST, {})
    given = bodies.obj(body)
    if "ledgerId" not in given and "entryId" not in given:
        return MessageId(LATEST, _properties(given))
    ledger_id = bodies.integer(given.get("ledgerId"), bodies.LONG_MAX, "ledgerId")
    entry_id = bodies.integer(given.get("entryId"), bodies.LONG_MAX, "entryId")
    position = Position(ledger_id, entry_id)
    if ledger_id == LATEST.ledger_id:
        position = LATEST
    elif ledger_id < 0:
        position = EARLIEST
    index = bodies.integer(-1 if given.get("batchIndex") is None else given["batchIndex"], what="batchIndex")
    excluded = bodies.boolean(given.get("isExcluded", given.get("excluded")), "isExcluded")
    return MessageId(position, _properties(given), excluded, index)


def _properties(given: dict[str, Any]) -> dict[str, str]:
    return {} if given.get("properties") is None else bodies.string_map(given["properties"], "properties")
