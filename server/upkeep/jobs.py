"""The periodic jobs that `Scheduler` runs. For each job this module has a function, the visit, that does the job's work
for one topic. The decisions are made in `topics/publishing/backlog_quota_rules.py` and `topics/inactivity_rules.py`.

Sources: BrokerService (checkMessageExpiry, monitorBacklogQuota, checkInactiveSubscriptions, checkGC,
checkDeduplicationSnapshot), BacklogQuotaManager.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from magnetar.server.config.upkeep_settings import UpkeepSettings
from magnetar.server.topics import backlog
from magnetar.server.topics import inactivity_rules as inactivity
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.publishing.backlog_quota_rules import BacklogQuotaType, Excess, entries_to_cut, excesses
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription
from magnetar.server.topics.topic import Topic
from magnetar.server.upkeep.scheduler import Job
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import PulsarError
from pulsar_proto.ids import EARLIEST, Position

log = logging.getLogger(__name__)

BACKLOG_QUOTAS = "backlog quotas"
INACTIVE_TOPICS = "inactive topics"
"""The name of the job that deletes unused topics."""


class Deleter(Protocol):
    """The jobs use the `BrokerService` through this interface."""

    async def delete_unused(self, topic: BaseTopic) -> None:
        """Deletes the topic, unless a client has begun to use the topic. Raises PulsarError when the deletion fails."""


def jobs_of(settings: UpkeepSettings, service: Deleter) -> list[Job[BaseTopic]]:
    """Returns all jobs, each with its interval."""
    jobs: list[Job[BaseTopic]] = [
        Job("message expiry", settings.message_expiry_check_interval_in_minutes * 60, persistent(expire_messages)),
        Job(
            "subscription expiry",
            settings.subscription_expiry_check_interval_in_minutes * 60,
            expire_subscriptions,
        ),
        Job(
            "deduplication snapshots",
            settings.broker_deduplication_snapshot_frequency_in_seconds,
            persistent(snapshot_deduplication),
        ),
        Job("compaction", settings.broker_service_compaction_monitor_interval_in_seconds, persistent(compact_if_due)),
        Job(
            INACTIVE_TOPICS,
            settings.broker_delete_inactive_topics_frequency_seconds,
            lambda topic, now_ms: delete_inactive(topic, service, time.monotonic()),
        ),
    ]
    if settings.backlog_quota_check_enabled:
        interval = settings.backlog_quota_check_interval_in_seconds
        jobs.append(Job(BACKLOG_QUOTAS, interval, persistent(check_quotas)))
    return jobs


def persistent(
    visit: Callable[[Topic, int], Awaitable[None] | None],
) -> Callable[[BaseTopic, int], Awaitable[None] | None]:
    """Wraps a visit so that it skips non-persistent topics, and topics that are being closed."""

    def visit_persistent(topic: BaseTopic, now_ms: int) -> Awaitable[None] | None:
        return visit(topic, now_ms) if isinstance(topic, Topic) and topic.is_open else None

    return visit_persistent


# --- expiry -----------------------------------------------------------------------------------------------------------


def expire_messages(topic: Topic, now_ms: int) -> Awaitable[None] | None:
    """Skips the messages that are older than the topic's time to live, in all durable subscriptions. Does not move the
    cursors of readers, so readers can still read retained messages."""
    ttl = topic.policies.message_ttl_in_seconds
    if ttl <= 0 or not any(each.cursor.durable and each.cursor.backlog for each in topic.subscriptions.values()):
        return None
    return _expire_messages(topic, ttl, now_ms)


async def _expire_messages(topic: Topic, ttl_seconds: float, now_ms: int) -> None:
    for subscription in list(topic.subscriptions.values()):
        if subscription.cursor.durable and subscription.cursor.backlog:
            expired = await backlog.expire_older(subscription, ttl_seconds, now_ms)
            if expired:
                log.info("%s: %d messages expired", subscription, expired)


def expire_subscriptions(topic: BaseTopic, now_ms: int) -> Awaitable[None] | None:
    """Deletes durable subscriptions to which no consumer has been connected for the topic's expiration time."""
    minutes = topic.policies.subscription_expiration_time_minutes
    if minutes <= 0 or not topic.is_open:
        return None
    unused = [each for each in topic.subscriptions.values() if not each.consumers and each.is_durable]
    due = [each for each in unused if inactivity.subscription_is_due(minutes, now_ms - each.last_active_ms)]
    return _delete_subscriptions(due, minutes) if due else None


async def _delete_subscriptions(due: Sequence[BaseSubscription], minutes: int) -> None:
    for subscription in due:
        if not subscription.consumers:
            log.info("%s: deleted, because nobody used it for more than %d minutes", subscription, minutes)
            await subscription.delete()


def snapshot_deduplication(topic: Topic, now_ms: int) -> None:
    """Makes the topic's deduplication take a snapshot that is due and forget producers that left long ago."""
    topic.deduplication.tick(time.monotonic(), topic.policies.deduplication_snapshot_interval_seconds)


# --- compaction -------------------------------------------------------------------------------------------------------


def compact_if_due(topic: Topic, now_ms: int) -> None:
    """Begins a compaction when more bytes than the threshold were written since the last compaction. Before the first
    compaction, compares the threshold with the size of the topic's backlog or, if the topic has no durable
    subscription, with the size of the whole log."""
    compaction, threshold = topic.compaction, topic.policies.compaction_threshold
    if compaction is None or threshold <= 0:
        return

    def uncompacted_bytes() -> int:
        if compaction.cursor is not None:
            return compaction.cursor.backlog_size
        durable = any(each.cursor.durable for each in topic.subscriptions.values())
        return topic.backlog_size if durable else topic.ledger.total_size

    compaction.check(threshold, uncompacted_bytes)


# --- quotas -----------------------------------------------------------------------------------------------------------


def check_quotas(topic: Topic, now_ms: int) -> Awaitable[None] | None:
    """Applies the backlog quotas of a topic, if the topic has backlog quotas, and learns the age of the backlog."""
    quotas = topic.policies.backlog_quotas
    has_quota = quotas.destination_storage.limit >= 0 or quotas.message_age.limit > 0
    if not has_quota:
        topic.quota.excess = None
        if topic.backlog_ages.are_known(topic.durable_cursors(), topic.quota.oldest):
            return None
    return _check_backlog(topic, now_ms, has_quota=has_quota)


async def _check_backlog(topic: Topic, now_ms: int, *, has_quota: bool) -> None:
    """Enforces the quotas, and then reads the oldest messages of the topic's backlogs, for metrics and stats
    (PersistentTopic.updateOldPositionInfo and PIP-492). The age of a message that cannot be read stays unknown; reading
    logs why."""
    if has_quota:
        await _check_quotas(topic, now_ms)
    with suppress(ManagedLedgerError):
        await topic.quota.oldest.published_ms()
        await topic.backlog_ages.refresh(topic.durable_cursors(), topic.quota.oldest)


async def _check_quotas(topic: Topic, now_ms: int) -> None:
    """Enforces the backlog quotas of a topic. When the topic exceeds a quota whose action is to evict backlog, this
    function skips the oldest messages in all durable subscriptions. For other actions it closes the topic's producers,
    and `topic.quota` refuses new producers."""
    quotas = topic.policies.backlog_quotas
    age_s = 0.0
    if quotas.message_age.limit > 0:
        age_s = await topic.quota.oldest_age_seconds(now_ms)
    found = excesses(quotas, topic.backlog_size, age_s)
    stopping = [excess for excess in found if excess.stops_producers]
    topic.quota.excess = next((excess for excess in stopping if excess.kind is BacklogQuotaType.AGE), None)
    for excess in found:
        if not excess.stops_producers:
            kind = "size" if excess.kind is BacklogQuotaType.SIZE else "time"
            topic.quota.evictions[kind] = topic.quota.evictions.get(kind, 0) + 1
            await _cut(topic, excess, now_ms)
    if stopping and topic.producers:
        excess = stopping[0]
        log.warning(
            "%s: over its backlog quota of %d (%s): producers are closed", topic, excess.limit, excess.kind.value
        )
        topic.publishing.disconnect_all()


async def _cut(topic: Topic, excess: Excess, now_ms: int) -> None:
    """Skips the oldest messages in all durable subscriptions, so that the backlog is within the quota again."""
    ledger = topic.ledger
    subscriptions = [each for each in topic.subscriptions.values() if each.cursor.durable]
    upto: Position | None = None
    if excess.kind is BacklogQuotaType.SIZE:
        entries = ledger.number_of_entries

        def bytes_behind(count: int) -> int:
            return ledger.size_after(ledger.entry_at(count - 1) if count else EARLIEST)

        count = entries_to_cut(entries, excess.limit, bytes_behind)
        upto = ledger.entry_at(count - 1) if count else None
    for subscription in subscriptions:
        if excess.kind is BacklogQuotaType.AGE:
            cut = await backlog.expire_older(subscription, excess.limit, now_ms)
        elif upto is not None and upto > subscription.cursor.mark_delete:
            cut = await backlog.expire_upto(subscription, upto)
        else:
            continue
        if cut:
            log.warning("%s: %d messages skipped for the backlog quota (%s)", subscription, cut, excess.kind.value)


# --- unused topics ----------------------------------------------------------------------------------------------------


def delete_inactive(topic: BaseTopic, service: Deleter, now_s: float) -> Awaitable[None] | None:
    """Deletes a topic that has not been in use for the time that its policy sets."""
    rule = topic.policies.inactive_topic_policies
    if not topic.is_open or inactivity.is_active(topic.use(), rule.delete_mode):
        topic.last_active_s = now_s
        return None
    if not inactivity.is_due(topic.policies, now_s - topic.last_active_s):
        return None
    return _delete_inactive(topic, service)


async def _delete_inactive(topic: BaseTopic, service: Deleter) -> None:
    log.info("%s: deleted, because nobody uses it", topic)
    try:
        await service.delete_unused(topic)
    except PulsarError as error:
        log.warning("%s: not deleted: %s", topic, error)
