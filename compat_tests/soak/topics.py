"""What a soak runs on: topics, how messages are produced to them, and their subscriptions with what is expected of
them."""

from dataclasses import dataclass, field
from typing import Any

import pulsar

from compat_tests.soak.claims import Order

EXCLUSIVE, SHARED = pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared
FAILOVER, KEY_SHARED = pulsar.ConsumerType.Failover, pulsar.ConsumerType.KeyShared

NAMESPACE = "public/soak"
"""A namespace that keeps everything for ever, so that a reader sees the whole log in the end."""
TRIMMED_NAMESPACE = "public/default"
BATCHES: dict[str, Any] = {
    "batching_enabled": True,
    "batching_max_publish_delay_ms": 20,
    "batching_max_allowed_size_in_bytes": 12_000,
}
KEY_BATCHES: dict[str, Any] = {**BATCHES, "batching_type": pulsar.BatchingType.KeyBased}
LZ4: dict[str, Any] = {"compression_type": pulsar.CompressionType.LZ4}
ZSTD: dict[str, Any] = {"compression_type": pulsar.CompressionType.ZSTD}


@dataclass(frozen=True, slots=True)
class Acking:
    """The shares of messages that are acknowledged and refused. A consumer does nothing about the rest until it is
    delivered again."""

    individually: float = 0.0
    cumulatively: float = 0.0
    negatively: float = 0.0


MOST = Acking(individually=0.95)
SOME_REFUSED = Acking(individually=0.88, negatively=0.08)
CUMULATIVE = Acking(cumulatively=0.05)


@dataclass(frozen=True, slots=True)
class SubscriptionSpec:
    name: str
    kind: pulsar.ConsumerType
    acking: Acking = MOST
    consumers: int = 1
    after_share: float = 0.0
    """The subscription is made at the topic's beginning when this share of the soak is over."""

    @property
    def order(self) -> Order:
        if self.kind == KEY_SHARED:
            return Order.KEY
        return Order.NONE if self.kind == SHARED else Order.TOPIC


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic. `producers` holds the options of each producer; rates are messages a second of each producer."""

    name: str
    rate: float
    producers: tuple[dict[str, Any], ...]
    subscriptions: tuple[SubscriptionSpec, ...]
    keys: int = 0
    partitions: int = 0
    is_deduplicated: bool = False
    is_chunked: bool = False
    is_delayed: bool = False
    is_json: bool = False
    is_trimmed: bool = False
    is_compacted: bool = False
    policies: dict[str, Any] = field(default_factory=dict)
    """The policies that the topic has from the start: path → body of a POST."""

    @property
    def full_name(self) -> str:
        return f"persistent://{TRIMMED_NAMESPACE if self.is_trimmed else NAMESPACE}/{self.name}"

    @property
    def rest_path(self) -> str:
        return self.full_name.replace("://", "/")


DEDUPLICATED = {"deduplicationEnabled": True}
TTL_SECONDS = 5

TOPICS = (
    TopicSpec(
        "plain",
        15,
        ({}, LZ4),
        (
            SubscriptionSpec("individual", EXCLUSIVE),
            SubscriptionSpec("cumulative", EXCLUSIVE, CUMULATIVE),
            SubscriptionSpec("shared", SHARED, SOME_REFUSED, consumers=3),
            SubscriptionSpec("late", FAILOVER, after_share=0.4),
        ),
    ),
    TopicSpec(
        "batched",
        40,
        (BATCHES, {**BATCHES, **ZSTD}),
        (
            SubscriptionSpec("indexes", SHARED, SOME_REFUSED, consumers=2),
            SubscriptionSpec("cumulative", FAILOVER, CUMULATIVE, consumers=2),
            SubscriptionSpec("failover", FAILOVER, consumers=3),
        ),
    ),
    TopicSpec(
        "keyed",
        20,
        ({}, KEY_BATCHES),
        (
            SubscriptionSpec("key_shared", KEY_SHARED, SOME_REFUSED, consumers=3),
            SubscriptionSpec("shared", SHARED, consumers=2),
        ),
        keys=15,
    ),
    TopicSpec(
        "delayed",
        8,
        ({},),
        (SubscriptionSpec("shared", SHARED, SOME_REFUSED, consumers=2), SubscriptionSpec("other", SHARED)),
        is_delayed=True,
    ),
    TopicSpec(
        "deduplicated",
        15,
        ({}, BATCHES),
        (SubscriptionSpec("exclusive", EXCLUSIVE), SubscriptionSpec("shared", SHARED, SOME_REFUSED, consumers=2)),
        is_deduplicated=True,
        policies=DEDUPLICATED,
    ),
    TopicSpec(
        "chunked",
        1,
        ({"chunking_enabled": True},),
        (SubscriptionSpec("exclusive", EXCLUSIVE),),
        is_deduplicated=True,
        is_chunked=True,
        policies=DEDUPLICATED,
    ),
    TopicSpec(
        "partitioned",
        20,
        ({}, KEY_BATCHES),
        (
            SubscriptionSpec("shared", SHARED, SOME_REFUSED, consumers=2),
            SubscriptionSpec("failover", FAILOVER, consumers=2),
            SubscriptionSpec("key_shared", KEY_SHARED, consumers=2),
        ),
        keys=12,
        partitions=2,
    ),
    TopicSpec("json", 10, ({},), (SubscriptionSpec("exclusive", EXCLUSIVE),), is_json=True),
    TopicSpec(
        "compacted",
        20,
        ({}, BATCHES),
        (SubscriptionSpec("exclusive", EXCLUSIVE),),
        keys=20,
        is_compacted=True,
    ),
    TopicSpec(
        "trimmed", 20, ({},), (SubscriptionSpec("exclusive", EXCLUSIVE, Acking(individually=1.0)),), is_trimmed=True
    ),
    TopicSpec("short_lived", 15, (BATCHES,), ()),
)
"""`short_lived` has a time to live, and a subscription that nobody reads."""
