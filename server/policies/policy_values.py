"""The small values that policies consist of: quotas, rates and the like. Each value is read from Apache's JSON, which
has the same keys in a namespace's record and in topic policies.

Sources: BacklogQuotaImpl, DispatchRateImpl, PublishRate, SubscribeRate, InactiveTopicPolicies, PersistencePolicies
(pulsar-common and pulsar-client-admin-api).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Self

UNLIMITED = -1

Json = Mapping[str, Any]
"""A parsed JSON object."""


class BacklogAction(StrEnum):
    """The action of the broker when a topic reaches a backlog quota (BacklogQuota.RetentionPolicy)."""

    PRODUCER_REQUEST_HOLD = "producer_request_hold"
    PRODUCER_EXCEPTION = "producer_exception"
    CONSUMER_BACKLOG_EVICTION = "consumer_backlog_eviction"


class InactiveTopicDeleteMode(StrEnum):
    DELETE_WHEN_NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
    DELETE_WHEN_SUBSCRIPTIONS_CAUGHT_UP = "delete_when_subscriptions_caught_up"


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """A backlog quota. `limit` is in bytes for the quota `destination_storage`, and in seconds for `message_age`. A
    negative limit means no limit; for an age, 0 also means no limit."""

    limit: int = UNLIMITED
    policy: BacklogAction = BacklogAction.PRODUCER_REQUEST_HOLD


class BacklogQuotas(NamedTuple):
    destination_storage: BacklogQuota
    message_age: BacklogQuota


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """Messages and bytes that may be sent in a period. 0 or less means no limit."""

    messages: int = UNLIMITED
    bytes: int = UNLIMITED
    period_seconds: int = 1
    relative_to_publish_rate: bool = False
    """Whether the limits are relative: the limits are then added to the rate at which messages are published to the
    topic."""

    @property
    def is_limited(self) -> bool:
        return self.messages > 0 or self.bytes > 0

    @classmethod
    def of(cls, value: Json) -> Self:
        return cls(
            messages=value.get("dispatchThrottlingRateInMsg", UNLIMITED),
            bytes=value.get("dispatchThrottlingRateInByte", UNLIMITED),
            period_seconds=max(1, value.get("ratePeriodInSecond", 1)),
            relative_to_publish_rate=bool(value.get("relativeToPublishRate")),
        )


@dataclass(frozen=True, slots=True)
class PublishRate:
    """Messages and bytes that may be published in a second. 0 or less means no limit."""

    messages: int = UNLIMITED
    bytes: int = UNLIMITED

    @property
    def is_limited(self) -> bool:
        return self.messages > 0 or self.bytes > 0

    @classmethod
    def of(cls, value: Json) -> Self:
        return cls(
            messages=value.get("publishThrottlingRateInMsg", UNLIMITED),
            bytes=value.get("publishThrottlingRateInByte", UNLIMITED),
        )


@dataclass(frozen=True, slots=True)
class SubscribeRate:
    """How often one consumer may subscribe in a period. 0 or less means no limit."""

    subscribes: int = UNLIMITED
    period_seconds: int = 30

    @classmethod
    def of(cls, value: Json) -> Self:
        return cls(
            subscribes=value.get("subscribeThrottlingRatePerConsumer", UNLIMITED),
            period_seconds=max(1, value.get("ratePeriodInSecond", 30)),
        )


@dataclass(frozen=True, slots=True)
class InactiveTopicPolicies:
    delete_while_inactive: bool
    max_inactive_duration_seconds: int
    delete_mode: InactiveTopicDeleteMode = InactiveTopicDeleteMode.DELETE_WHEN_NO_SUBSCRIPTIONS

    @classmethod
    def of(cls, value: Json) -> Self:
        return cls(
            delete_while_inactive=bool(value.get("deleteWhileInactive")),
            max_inactive_duration_seconds=value.get("maxInactiveDurationSeconds") or 0,
            delete_mode=InactiveTopicDeleteMode(
                value.get("inactiveTopicDeleteMode") or InactiveTopicDeleteMode.DELETE_WHEN_NO_SUBSCRIPTIONS
            ),
        )


@dataclass(frozen=True, slots=True)
class Persistence:
    """How the ledgers that a topic creates from now on are replicated."""

    ensemble: int
    write_quorum: int
    ack_quorum: int
    mark_delete_rate: float
    """How often per second a subscription's acknowledgements are stored at most; 0 or less means no limit."""

    @classmethod
    def of(cls, value: Json) -> Self | None:
        """Reads the policy from JSON. Returns None when the quorums are missing, zero (which in Java means "not set")
        or contradict each other."""
        ensemble, write, ack = (
            value.get(key) or 0 for key in ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum")
        )
        if not 1 <= ack <= write <= ensemble:
            return None
        return cls(ensemble, write, ack, float(value.get("managedLedgerMaxMarkDeleteRate") or 0))


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """Whether a missing topic is created when a client names it, and with how many partitions; 0 partitions means a
    topic that is not partitioned."""

    allowed: bool
    partitions: int = 0

    @classmethod
    def of(cls, value: Json) -> Self:
        partitions = 0
        if value.get("topicType") == "partitioned":
            partitions = max(1, value.get("defaultNumPartitions") or 1)
        return cls(allowed=bool(value.get("allowAutoTopicCreation")), partitions=partitions)


NO_QUOTAS = BacklogQuotas(BacklogQuota(), BacklogQuota())
NO_DISPATCH_RATE = DispatchRate()
NO_PUBLISH_RATE = PublishRate()
NO_SUBSCRIBE_RATE = SubscribeRate()
NEVER_INACTIVE = InactiveTopicPolicies(delete_while_inactive=False, max_inactive_duration_seconds=60)
