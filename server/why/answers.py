"""The whole answer for one topic, as JSON: the reasons of the topic, of its subscriptions and of its producers, and
each subscription's backlog."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice

from magnetar.server.process.turns import Turns
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.topic import Topic
from magnetar.server.why.first_unacknowledged import oldest_entry
from magnetar.server.why.producer_gathering import producers_snapshot
from magnetar.server.why.producer_rules import producer_reasons
from magnetar.server.why.producer_snapshot import ProducersSnapshot
from magnetar.server.why.reasons import LISTED_MAX, Json, Reason, in_the_way, moment
from magnetar.server.why.subscription_gathering import subscription_snapshot
from magnetar.server.why.subscription_rules import backlog_summary, reasons_of
from magnetar.server.why.subscription_snapshot import SubscriptionSnapshot
from magnetar.server.why.topic_rules import UNUSED, AbsentTopic, TopicSnapshot, reasons_of_absent, topic_reasons
from magnetar.storage.managed.appender import AppendState

SUBSCRIPTIONS_MAX = 100
"""How many subscriptions one answer tells about. A subscription that is asked for by name is always among them."""

READING_SECONDS = 8.0
"""How long all reads of one answer may take together."""


async def why(
    topic: BaseTopic,
    broker_id: str,
    *,
    is_owned: bool,
    subscription: str | None,
    hindrance: str = "",
    storage_warning: str = "",
) -> Json:
    """Returns the answer for a loaded topic. With a `subscription`, which exists, the verdict is about it alone. For
    `hindrance` and `storage_warning` see `producers_snapshot`."""
    fenced = isinstance(topic, Topic) and topic.ledger.state is AppendState.FENCED
    of_topic = topic_reasons(TopicSnapshot(is_owned, topic.is_open, fenced))
    asked = topic.subscriptions.values() if subscription is None else [topic.subscriptions[subscription]]
    told: Json = {}
    verdict = in_the_way(of_topic)
    until_s = asyncio.get_running_loop().time() + READING_SECONDS
    turns = Turns()
    for each in list(islice(asked, SUBSCRIPTIONS_MAX)):
        told[each.name], blocks = await _subscription(topic, each, until_s, turns)
        verdict = verdict or blocks
        await turns.breathe()
    producers = producers_snapshot(topic, now_ms(), hindrance, storage_warning)
    await turns.breathe()
    of_producers = producer_reasons(producers)
    if subscription is None:
        verdict = verdict or in_the_way(of_producers)
    return {
        "topic": topic.name.full,
        "broker": broker_id,
        "standsInTheWay": verdict,
        "reasons": _all_json(of_topic),
        "subscriptions": told,
        "subscriptionsLeftOut": max(0, len(topic.subscriptions) - len(told)) if subscription is None else 0,
        "producers": _producers(producers, of_producers),
    }


def why_absent(name: str, broker_id: str, topic: AbsentTopic) -> Json:
    """Returns the answer for a topic that could not be loaded."""
    return _without_clients(name, broker_id, reasons_of_absent(topic))


def why_unused(name: str, broker_id: str) -> Json:
    """Returns the answer for a partition that exists and that no client has used yet."""
    return _without_clients(name, broker_id, [UNUSED])


def _without_clients(name: str, broker_id: str, reasons: Sequence[Reason]) -> Json:
    return {
        "topic": name,
        "broker": broker_id,
        "standsInTheWay": in_the_way(reasons),
        "reasons": _all_json(reasons),
        "subscriptions": {},
        "subscriptionsLeftOut": 0,
        "producers": None,
    }


def _all_json(reasons: Iterable[Reason]) -> list[Json]:
    return [reason.as_json() for reason in reasons]


# --- subscriptions ----------------------------------------------------------------------------------------------------


async def _subscription(
    topic: BaseTopic, subscription: BaseSubscription, until_s: float, turns: Turns
) -> tuple[Json, bool]:
    """Returns the answer for a subscription, and whether anything stands in its way. The snapshot is taken in one
    piece, because it must be the state of one moment; what is made of it goes in portions."""
    oldest = await oldest_entry(subscription, until_s) if isinstance(subscription, Subscription) else None
    await turns.breathe()
    found = subscription_snapshot(topic, subscription, now_ms(), oldest)
    await turns.breathe()
    reasons = []
    for reason in reasons_of(found):
        reasons.append(reason)
        await turns.breathe()
    blocks = in_the_way(reasons)
    answer: Json = {
        "type": found.kind,
        "isDurable": found.is_durable,
        "standsInTheWay": blocks,
        "reasons": _all_json(reasons),
        "summary": backlog_summary(found),
        "backlog": _backlog(found) if found.is_stored else None,
        "consumers": [
            {
                "name": each.name,
                "address": each.address,
                "isActive": each.is_active if found.kind in ("Exclusive", "Failover") else None,
                "takesMessages": each.takes,
                "permits": each.permits,
                "unackedMessages": each.unacked,
            }
            for each in found.consumers[:LISTED_MAX]
        ],
        "consumerCount": len(found.consumers),
    }
    return answer, blocks


def _backlog(found: SubscriptionSnapshot) -> Json:
    backlog, oldest = found.backlog, found.oldest
    published_ms = None if oldest is None else oldest.published_ms
    return {
        "entries": backlog.entries,
        "messages": 0 if not backlog.entries else None if oldest is None else oldest.messages,
        "messagesAreExact": not backlog.entries or (oldest is not None and oldest.messages_are_exact),
        "sizeBytes": backlog.size_bytes,
        "deliveredEntries": backlog.delivered,
        "deliveredMessages": backlog.delivered_messages,
        "waitingAgainEntries": backlog.again,
        "waitingChunks": backlog.waiting_for_chunks,
        "delayedEntries": backlog.delayed,
        "notReadEntries": backlog.not_read,
        "entriesInHoles": backlog.in_holes,
        "markDeletePosition": str(backlog.mark_delete),
        "readPosition": str(backlog.read_position),
        "oldestPosition": str(backlog.first_unacked) if backlog.entries else None,
        "oldestPublishedMs": published_ms,
        "oldestPublished": moment(published_ms) if published_ms else None,
        "oldestAgeSeconds": None if published_ms is None else max(0.0, (found.now_ms - published_ms) / 1000),
    }


# --- producers --------------------------------------------------------------------------------------------------------


def _producers(found: ProducersSnapshot, reasons: Sequence[Reason]) -> Json:
    return {
        "standsInTheWay": in_the_way(reasons),
        "reasons": _all_json(reasons),
        "producers": [
            {"name": each.name, "address": each.address, "unansweredSends": each.pending}
            for each in found.producers[:LISTED_MAX]
        ],
        "producerCount": len(found.producers),
        "lastPublishMs": found.last_publish_ms,
    }
