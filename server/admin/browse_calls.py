"""The call that shows a topic's messages, decoded, to people. Only Magnetar has it."""

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.subscription_calls import refuse_partitioned
from magnetar.server.admin.topic_calls import loaded
from magnetar.server.browsing.message_browser import COUNT_MAX, browse
from magnetar.server.browsing.message_filter_rules import filter_of, start_of
from magnetar.server.web.calls import Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place

COUNT_DEFAULT = "50"


async def messages(call: Call) -> Answer:
    """Answers with messages of a topic from `from` on (`latest` unless it is given), `count` of them at most, filtered
    by `key`, `property` and `text`."""
    if not topic_of(call).is_persistent:
        raise Refusal(405, "The messages of a non-persistent topic are not stored, so they cannot be shown")
    await refuse_partitioned(call, "Messages are shown of one partition at a time: ask for a partition of this topic")
    count = bodies.integer(call.query.get("count", COUNT_DEFAULT), what="count")
    if not 1 <= count <= COUNT_MAX:
        raise Refusal(400, f"count must be from 1 to {COUNT_MAX}, not {count}")
    try:
        start = start_of(call.query.get("from", "latest"))
    except (ValueError, OverflowError) as error:
        raise Refusal(400, str(error)) from None
    wanted = filter_of(*(call.query.get(name) for name in ("key", "property", "text")))
    return await browse(await loaded(call), call.broker.service.schemas.registry, start, wanted, count)


ROUTES = (Route("GET", f"{TOPIC}/messages", messages, topic("PEEK_MESSAGES"), Place.TOPIC),)
