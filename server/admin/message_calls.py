"""The calls that answer with single messages (by their place in a backlog or in the topic, or by id), with message ids
by time, and with sizes of backlogs.

Sources: PersistentTopicsBase (internalPeekNthMessageAsync, internalExamineMessageAsync,
internalAnalyzeSubscriptionBacklog); answers recorded from Pulsar 4.0.7.
"""

import asyncio

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.message_answer import message_answer
from magnetar.server.admin.subscription_requests import (
    SUBSCRIPTION,
    message_id_of,
    number_of,
    refuse_partitioned,
    subscription_of,
)
from magnetar.server.admin.topic_calls import loaded, message_id
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.stats.internal_stats import unreadable as unreadable_json
from magnetar.server.topics import backlog
from magnetar.server.web.calls import Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.records.payload import message_count

SCANNED_ENTRIES_MAX = 10_000
"""The number of entries after which a call that counts a backlog stops; its answer then says that the count is partial
(subscriptionBacklogScanMaxEntries)."""

SCAN_SECONDS = 20.0
"""The time for which one call looks for unreadable entries."""

SCANNED_AT_ONCE = 100
SCANNED_BYTES_AT_ONCE = 5 << 20
"""The bounds of one read of a scan, in entries and in bytes. The read ends at the bound that it reaches first."""


async def peek(call: Call) -> Answer:
    """Answers with the n-th message that a subscription has not acknowledged. A subscription that does not exist is
    created at the first message, as in Apache's broker (PersistentTopicsBase.internalPeekNthMessageAsync), because
    tests of the official clients rely on that."""
    name = topic_of(call)
    if not name.is_persistent:
        raise Refusal(405, "Peek messages on a non-persistent topic is not allowed")
    number = number_of(call, "messagePosition", bodies.INT_MAX)
    if number < 1:
        raise Refusal(400, f"messagePosition must be 1 or more, not {number}")
    await refuse_partitioned(call, "Peek messages on a partitioned topic is not allowed")
    held = await loaded(call)
    subscription = await held.create_subscription(call.parts["subscription"], EARLIEST)
    found = await backlog.peek(subscription, number)
    return await message_answer(found, "Message not found", held.transactions)


async def by_id(call: Call) -> Answer:
    """Answers with the message whose ledger id and entry id the path names."""
    position = Position(
        number_of(call, "ledgerId", bodies.LONG_MAX),
        number_of(call, "entryId", bodies.LONG_MAX),
    )
    await refuse_partitioned(call, "GetMessageById is not allowed on partitioned-topic")
    held = await loaded(call)
    return await message_answer(await backlog.message_at(held, position), "Message id not found", held.transactions)


async def examine(call: Call) -> Answer:
    """Answers with the n-th message (`messagePosition`) from the end of the topic, or from its beginning if
    `initialPosition` is `earliest`."""
    if not topic_of(call).is_persistent:
        raise Refusal(405, "Examine messages on a non-persistent topic is not allowed")
    await refuse_partitioned(
        call,
        "Examine messages on a partitioned topic is not allowed, please try examine message on specific topic "
        "partition",
    )
    from_end = call.query.get("initialPosition") != "earliest"
    number = bodies.integer(call.query.get("messagePosition", "1"), what="messagePosition")
    held = await loaded(call)
    found = await backlog.examine(held, number, from_end=from_end)
    if found is None:
        raise Refusal(412, "Could not examine messages due to the total message is zero")
    return await message_answer(found, "Message not found", held.transactions)


async def id_by_time(call: Call) -> Answer:
    """Answers with the id of the first message that was published at the time in the path or later. When there is no
    such message, the answer is the id that the next published message will get."""
    timestamp = number_of(call, "timestamp", bodies.LONG_MAX)
    await refuse_partitioned(
        call,
        "Get message ID by timestamp on a partitioned topic is not allowed, please try do it on specific topic "
        "partition",
    )
    held = await loaded(call)
    with storage_faults_told():
        position = await held.first_published_at(timestamp)
    return message_id(position, held.name.partition_index)


async def backlog_size(call: Call) -> Answer:
    """Answers with the number of bytes that are stored after the message that the body names."""
    position = message_id_of(bodies.present(bodies.parse(call.body))).position
    held = await loaded(call)
    return held.ledger.total_size if position == EARLIEST else held.ledger.size_after(position)


async def analyze(call: Call) -> Answer:
    """Counts the entries and messages that a subscription has not acknowledged. The count begins at the message that
    the body names, or at the first unacknowledged message."""
    given = bodies.parse(call.body)
    await refuse_partitioned(
        call, "Analyze backlog on a partitioned topic is not allowed, please try do it on specific topic partition"
    )
    subscription = await subscription_of(call)
    ledger, cursor = subscription.topic.ledger, subscription.cursor
    at = cursor.next_unacked(cursor.mark_delete)
    if given is not bodies.ABSENT and given is not None:
        asked = message_id_of(given).position
        at = asked if asked > EARLIEST else ledger.first_position
    entries = messages = 0
    first: Position | None = None
    last: Position | None = None
    while entries < SCANNED_ENTRIES_MAX and not ledger.is_after_last(at):
        with storage_faults_told():
            run = await ledger.read(at, SCANNED_AT_ONCE, SCANNED_BYTES_AT_ONCE)
        if not run.entries:
            break
        for entry_id, payload in enumerate(run.entries, run.first_entry_id):
            if not cursor.is_acked(run.ledger_id, entry_id):
                last = Position(run.ledger_id, entry_id)
                first = first or last
                entries += 1
                messages += _count(payload, run.payload_offset)
        at = ledger.next_position(Position(run.ledger_id, run.first_entry_id + len(run.entries) - 1))
    return {
        "entries": entries,
        "messages": messages,
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": entries,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": messages,
        "filterRescheduledMessages": 0,
        "aborted": entries >= SCANNED_ENTRIES_MAX,
        **({} if first is None else {"firstMessageId": str(first), "lastMessageId": str(last)}),
    }


def _count(payload: bytes, offset: int) -> int:
    try:
        return message_count(payload, offset)
    except MalformedFrame:
        return 1


async def unreadable(call: Call) -> Answer:
    """Reads the topic to its end and answers with the entries that every bookie has lost. The call does not make any
    consumer skip these entries. If the scan takes longer than SCAN_SECONDS, the answer's `complete` is false. The
    client then calls again, with the parameter `after` set to the answer's `scanned`."""
    if not topic_of(call).is_persistent:
        raise Refusal(405, "Non-persistent topics store nothing")
    await refuse_partitioned(call, "Ask for the unreadable entries of a topic partition")
    after = _position(call.query.get("after", "-1:-1"))
    ledger = (await loaded(call)).ledger
    with storage_faults_told():
        scanned = await ledger.scan(after, asyncio.get_running_loop().time() + SCAN_SECONDS)
    return {
        "unreadable": [unreadable_json(gap) for gap in ledger.gaps.known if gap.end > after],
        "scanned": str(scanned),
        "complete": ledger.is_after_last(ledger.next_position(scanned)),
    }


def _position(text: str) -> Position:
    """Reads a position like 12:345. Raises Refusal 400 for a text of another form."""
    try:
        ledger_id, entry_id = map(int, text.split(":"))
    except ValueError:
        raise Refusal(400, f"after must be a position like 12:345, not {text!r}") from None
    return Position(ledger_id, entry_id)


ROUTES = (
    Route("GET", f"{TOPIC}/unreadable", unreadable, topic("GET_STATS"), Place.TOPIC),
    Route("GET", f"{SUBSCRIPTION}/position/{{messagePosition}}", peek, topic("PEEK_MESSAGES"), Place.TOPIC),
    Route("POST", f"{SUBSCRIPTION}/analyzeBacklog", analyze, topic("CONSUME"), Place.TOPIC),
    Route("GET", f"{TOPIC}/ledger/{{ledgerId}}/entry/{{entryId}}", by_id, topic("PEEK_MESSAGES"), Place.TOPIC),
    Route("GET", f"{TOPIC}/examinemessage", examine, topic("PEEK_MESSAGES"), Place.TOPIC),
    Route("GET", f"{TOPIC}/messageid/{{timestamp}}", id_by_time, topic("PEEK_MESSAGES"), Place.TOPIC),
    Route("PUT", f"{TOPIC}/backlogSize", backlog_size, topic("GET_BACKLOG_SIZE"), Place.TOPIC),
)
