"""The calls that show a topic's messages, decoded, to people, and that tell one message's story. Only Magnetar has
them."""

import asyncio
from importlib import import_module

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.subscription_requests import number_of, refuse_partitioned
from magnetar.server.admin.topic_calls import loaded
from magnetar.server.browsing.message_filter_rules import COUNT_MAX, filter_of, start_of
from magnetar.server.browsing.message_story import NOT_RECORDED, subscriptions_of, where
from magnetar.server.topics import backlog
from magnetar.server.web.calls import Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import Position
from pulsar_proto.records.ledger_record import LedgerMetadata, ledger_path
from pulsar_proto.records.payload import parse_metadata

COUNT_DEFAULT = "50"
BATCH_MAX = 1 << 20
"""One more than the highest index in a batch that a call may ask for."""


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
    held = await loaded(call)
    # With its libraries for schemas the browser takes 4 MB, and most servers never show a message.
    browser = await asyncio.to_thread(import_module, "magnetar.server.browsing.message_browser")
    found: Answer = await browser.browse(held, call.broker.service.schemas.registry, start, wanted, count)
    return found


async def story(call: Call) -> Answer:
    """Answers where a message lies, and what each subscription has done with it. `batchIndex` names one message of a
    batch."""
    position = Position(*(number_of(call, part, bodies.LONG_MAX) for part in ("ledgerId", "entryId")))
    batch_index = bodies.integer(call.query.get("batchIndex", "-1"), what="batchIndex")
    if not -1 <= batch_index < BATCH_MAX:
        raise Refusal(400, f"batchIndex must be from 0 to {BATCH_MAX - 1}, not {batch_index}")
    await refuse_partitioned(call, "A message stands in one partition: ask for that partition of the topic")
    held = await loaded(call)
    found = await backlog.message_at(held, position)
    if found is None:
        raise Refusal(404, f"The topic has no message {position}")
    record = await call.broker.bookie_metadata.get(ledger_path(position.ledger_id))
    if record is None:
        raise Refusal(404, f"The ledger {position.ledger_id} has no record any more")
    place = where(LedgerMetadata.parse(position.ledger_id, record.value), position.entry_id, len(found.payload))
    return {
        "id": str(position) if batch_index < 0 else f"{position}:{batch_index}",
        "where": {"ledger": position.ledger_id, "entry": position.entry_id, **place},
        "subscriptions": await subscriptions_of(held, position, batch_index, _deliver_at(found.payload)),
        "notRecorded": NOT_RECORDED,
    }


def _deliver_at(payload: bytes) -> int:
    try:
        return parse_metadata(payload).deliver_at_time
    except MalformedFrame:
        return 0


ROUTES = (
    Route("GET", f"{TOPIC}/messages", messages, topic("PEEK_MESSAGES"), Place.TOPIC),
    Route("GET", f"{TOPIC}/messages/{{ledgerId}}/{{entryId}}/story", story, topic("PEEK_MESSAGES"), Place.TOPIC),
)
