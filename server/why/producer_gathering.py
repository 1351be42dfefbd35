"""Takes the snapshot of a topic's producers from the live objects. Nothing is changed."""

from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.publishing.backlog_quota_rules import Excess
from magnetar.server.topics.publishing.publish_fence_rules import FenceState
from magnetar.server.topics.publishing.publish_limiter import PublishLimiter
from magnetar.server.topics.topic import Topic
from magnetar.server.why.producer_snapshot import (
    ProducerSnapshot,
    ProducersSnapshot,
    PublishRateSnapshot,
    QuotaSnapshot,
)
from magnetar.server.why.subscription_gathering import refused_snapshot


def producers_snapshot(
    topic: BaseTopic, now_ms: int, hindrance: str = "", storage_warning: str = ""
) -> ProducersSnapshot:
    """Returns the snapshot. `hindrance` says why the broker's storage takes no writes, and `storage_warning` why it may
    soon take none; both are empty while all is well."""
    publishing = topic.publishing
    fence, dedup = publishing.fence, publishing.dedup
    persistent = topic if isinstance(topic, Topic) else None
    connected = [
        ProducerSnapshot(each.name, each.cnx.remote_address, each.pending) for each in topic.producers.values()
    ]
    return ProducersSnapshot(
        now_ms=now_ms,
        producers=tuple(connected),
        waiting=tuple(each.producer.name for each in publishing.access.waiting),
        exclusive=publishing.access.exclusive_name,
        last_publish_ms=publishing.last_publish_ms,
        quotas=() if persistent is None else tuple(map(_quota, persistent.quota.exceeded())),
        backlog_bytes=0 if persistent is None else persistent.backlog_size,
        rates=tuple(_rate(topic, limiter) for limiter in publishing.limiters),
        is_terminated=topic.is_terminated,
        takes_messages=fence.state is FenceState.OPEN,
        storage_is_down=fence.is_storage_down,
        storage_reason=fence.reason,
        hindrance="" if persistent is None else hindrance,
        storage_warning="" if persistent is None else storage_warning,
        metadata_is_away=persistent is not None and persistent.ledger.metadata_is_away,
        dedup_is_starting=dedup is not None and not dedup.is_complete,
        pending_sends=sum(each.pending for each in connected),
        unanswered_since_ms=publishing.unanswered_since_ms,
        log_state="open" if persistent is None else persistent.ledger.state.value,
        refused=refused_snapshot(topic.refusals.of_producer),
    )


def _quota(excess: Excess) -> QuotaSnapshot:
    return QuotaSnapshot(excess.kind.value, excess.limit, excess.action.value, excess.stops_producers)


def _rate(topic: BaseTopic, limiter: PublishLimiter) -> PublishRateSnapshot:
    return PublishRateSnapshot(
        limiter is topic.broker_limiter,
        limiter.rate.messages,
        limiter.rate.bytes,
        limiter.wait_seconds(),
        tuple(cnx.remote_address for cnx in limiter.throttled),
    )
