"""`check topic`, `check subscription` and `check brokers`: what the admin interface tells."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from magnetar.server.tools.connection.connection_errors import AdminCallError
from magnetar.server.tools.connection.http_client import AdminHttp, path_of
from magnetar.server.tools.messages import check_measures as measures
from magnetar.server.tools.messages.check_rules import Outcome, State, Thresholds
from pulsar_proto.names import TopicName

EXACT = (("getPreciseBacklog", "true"), ("getEarliestTimeInBacklog", "true"), ("subscriptionBacklogSize", "false"))
PEEKED_PARTITIONS_MAX = 50
"""Of how many partitions the oldest message is looked at, when the server's statistics do not know its time."""


def check_topic(outcome: Outcome, http: AdminHttp, topic: TopicName, thresholds: Thresholds) -> None:
    """Adds what the statistics of a topic, partitioned or not, say."""
    found, partitions = _stats(outcome, http, topic)
    if found is None:
        return
    subscriptions = found.get("subscriptions", {})
    backlog = max((int(each.get("msgBacklog", 0)) for each in subscriptions.values()), default=0)
    outcome.add(measures.BACKLOG, backlog, thresholds)
    outcome.add(measures.PRODUCERS, _clients(found.get("publishers", ()), "producerName", partitions), thresholds)
    outcome.add(measures.SUBSCRIPTIONS, len(subscriptions), thresholds)
    outcome.add(measures.STORAGE, found.get("storageSize", 0), thresholds)
    outcome.add(measures.RATE_IN, round(found.get("msgRateIn", 0.0), 3), thresholds)


def check_subscription(
    outcome: Outcome, http: AdminHttp, topic: TopicName, subscription: str, thresholds: Thresholds
) -> None:
    """Adds what the statistics of a subscription say, and the age of its oldest message."""
    found, partitions = _stats(outcome, http, topic)
    if found is None:
        return
    stats = found.get("subscriptions", {}).get(subscription)
    if stats is None:
        outcome.fail(State.CRITICAL, "there is no such subscription")
        return
    backlog = int(stats.get("msgBacklog", 0))
    outcome.add(measures.BACKLOG, backlog, thresholds)
    age_s = 0.0 if not backlog else _age_s(http, topic, partitions, subscription, stats)
    if age_s is not None:
        outcome.add(measures.AGE, age_s, thresholds)
    elif measures.AGE.name in (*thresholds.warn, *thresholds.critical):
        outcome.fail(State.UNKNOWN, "the age of the backlog is not told by the server")
    outcome.add(measures.UNACKED, stats.get("unackedMessages", 0), thresholds)
    outcome.add(measures.CONSUMERS, _clients(stats.get("consumers", ()), "consumerName", partitions), thresholds)
    outcome.add(measures.RATE_OUT, round(stats.get("msgRateOut", 0.0), 3), thresholds)
    if stats.get("blockedSubscriptionOnUnackedMsgs"):
        outcome.fail(State.CRITICAL, "it is blocked by messages that its consumers do not acknowledge")


def check_brokers(outcome: Outcome, http: AdminHttp, thresholds: Thresholds) -> None:
    """Adds how many brokers there are, whether they have a leader, and whether the one that was asked is healthy."""
    brokers = http.get("/admin/v2/brokers").json()
    outcome.add(measures.BROKERS, len(brokers), thresholds)
    leader = http.get("/admin/v2/brokers/leaderBroker").json()
    if not isinstance(leader, dict) or not (leader.get("serviceUrl") or leader.get("brokerId")):
        outcome.fail(State.CRITICAL, "the brokers have no leader")
    try:
        http.get("/admin/v2/brokers/health")
    except AdminCallError as error:
        if error.status in (401, 403):
            raise
        outcome.fail(State.CRITICAL, f"the broker that was asked is not healthy: {error}")


def _clients(stats: Sequence[Any], name: str, partitions: int) -> int:
    """Counts clients. Those of a partitioned topic are counted by their names: one client may be listed once for each
    partition, with another connection's address."""
    return len({each.get(name) for each in stats}) if partitions else len(stats)


def _path(topic: TopicName, *more: str) -> str:
    return path_of("admin", "v2", topic.domain, topic.tenant, topic.namespace_name, topic.local_name, *more)


def _stats(outcome: Outcome, http: AdminHttp, topic: TopicName) -> tuple[Any, int]:
    """Returns the statistics, and the number of partitions (0 for a topic without); None for the statistics of a topic
    that does not exist, about which the outcome then tells."""
    try:
        partitions = int((http.get(_path(topic, "partitions")).json() or {}).get("partitions", 0))
        kind = "partitioned-stats" if partitions else "stats"
        query = (*EXACT, ("perPartition", "false")) if partitions else EXACT
        return http.get(_path(topic, kind), query).json(), partitions
    except AdminCallError as error:
        if error.status != 404:
            raise
        outcome.fail(State.CRITICAL, "there is no such topic")
        return None, 0


def _age_s(http: AdminHttp, topic: TopicName, partitions: int, subscription: str, stats: Any) -> float | None:
    """Returns how long ago the oldest message of the backlog was published: from the statistics, or else by looking at
    the first message. Returns None when neither tells."""
    told_ms = int(stats.get("earliestMsgPublishTimeInBacklog", 0))
    if told_ms > 0:
        return max(0.0, time.time() - told_ms / 1000)
    names = [topic.partition(index) for index in range(min(partitions, PEEKED_PARTITIONS_MAX))] or [topic]
    times_s = [when for name in names if (when := _first_published_s(http, name, subscription)) is not None]
    return max(0.0, time.time() - min(times_s)) if times_s else None


def _first_published_s(http: AdminHttp, topic: TopicName, subscription: str) -> float | None:
    try:
        headers = http.get(_path(topic, "subscription", subscription, "position", "1")).headers
        return datetime.fromisoformat(headers["x-pulsar-publish-time"]).timestamp()
    except (AdminCallError, KeyError, ValueError):
        return None
