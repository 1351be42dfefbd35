"""Counters of producers, consumers and topics, and the rates that are computed from them.

Counters are plain integers, because counting happens for every message and has to be fast. A rate is how much a counter
grew between two readings (`Rate.roll`, called for all topics every RATE_PERIOD_SECONDS)."""

import time
from collections.abc import Sequence
from typing import Final


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Rate:
    """A counter's growth per second between the last two calls of `roll`."""

    __slots__ = ("_count", "value")

    def __init__(self, value: float = 0.0) -> None:
        self._count = 0
        self.value = value

    def roll(self, count: int, elapsed_s: float) -> "Rate":
        """Computes the rate. `count` is the counter's value now, `elapsed_s` the time since the last call. Returns the
        rate to keep: this one, or a new one in place of NO_RATE."""
        rate = self
        if rate is NO_RATE:
            if not count:
                return rate
            rate = Rate()
        rate.value = (count - rate._count) / elapsed_s if elapsed_s > 0 else 0.0
        rate._count = count
        return rate

    def plus(self, other: "Rate") -> "Rate":
        """Returns the sum of two rates, which is never rolled."""
        return Rate(self.value + other.value) if other.value else self


NO_RATE: Final = Rate()
"""The rate of whatever was never counted. Many topics are idle, and a topic with a producer and a consumer has thirteen
rates of 48 bytes. Nobody changes this rate."""


class ConsumerCounters:
    """The counts of one consumer since it connected. Times are ms since the epoch; 0 stands for never."""

    __slots__ = (
        "ack_rate",
        "acks",
        "byte_rate",
        "bytes_out",
        "last_acked_ms",
        "last_flow_ms",
        "last_sent_ms",
        "message_rate",
        "messages_out",
        "redelivered",
        "redelivery_rate",
    )

    def __init__(self) -> None:
        self.messages_out = 0
        self.bytes_out = 0
        self.acks = 0
        self.redelivered = 0
        self.last_acked_ms = 0
        self.last_flow_ms = 0
        self.last_sent_ms = 0
        self.message_rate = NO_RATE
        self.byte_rate = NO_RATE
        self.redelivery_rate = NO_RATE
        self.ack_rate = NO_RATE

    def sent(self, messages: int, payloads: Sequence[bytes]) -> None:
        self.messages_out += messages
        self.bytes_out += sum(map(len, payloads))
        self.last_sent_ms = now_ms()

    def acked(self, count: int) -> None:
        self.acks += count
        self.last_acked_ms = now_ms()

    def flowed(self) -> None:
        self.last_flow_ms = now_ms()

    def add(self, other: "ConsumerCounters") -> None:
        """Adds another consumer's counts and rates to these counters. Of each pair of times, keeps the later time."""
        self.messages_out += other.messages_out
        self.bytes_out += other.bytes_out
        self.acks += other.acks
        self.redelivered += other.redelivered
        self.last_acked_ms = max(self.last_acked_ms, other.last_acked_ms)
        self.last_flow_ms = max(self.last_flow_ms, other.last_flow_ms)
        self.last_sent_ms = max(self.last_sent_ms, other.last_sent_ms)
        self.message_rate = self.message_rate.plus(other.message_rate)
        self.byte_rate = self.byte_rate.plus(other.byte_rate)
        self.redelivery_rate = self.redelivery_rate.plus(other.redelivery_rate)
        self.ack_rate = self.ack_rate.plus(other.ack_rate)

    def forget_rates(self) -> None:
        """Called when the consumer has left: sets the rates to 0 and keeps the counts."""
        self.message_rate = NO_RATE
        self.byte_rate = NO_RATE
        self.redelivery_rate = NO_RATE
        self.ack_rate = NO_RATE

    def roll(self, elapsed_s: float) -> None:
        self.message_rate = self.message_rate.roll(self.messages_out, elapsed_s)
        self.byte_rate = self.byte_rate.roll(self.bytes_out, elapsed_s)
        self.redelivery_rate = self.redelivery_rate.roll(self.redelivered, elapsed_s)
        self.ack_rate = self.ack_rate.roll(self.acks, elapsed_s)


class ExpiryCounters:
    """Counts the entries of a subscription that the broker acknowledged because of their age."""

    __slots__ = ("entries", "last_ms", "rate")

    def __init__(self) -> None:
        self.entries = 0
        self.last_ms = 0
        """When the broker last acknowledged such an entry, in ms since the epoch; 0 for never."""
        self.rate = NO_RATE

    def add(self, entries: int) -> None:
        self.entries += entries
        self.last_ms = now_ms()

    def roll(self, elapsed_s: float) -> None:
        self.rate = self.rate.roll(self.entries, elapsed_s)


class ProducerCounters:
    """The counts of a producer, or of all producers of a topic."""

    __slots__ = ("byte_rate", "bytes_in", "message_rate", "messages_in")

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.message_rate = NO_RATE
        self.byte_rate = NO_RATE

    def roll(self, elapsed_s: float) -> None:
        self.message_rate = self.message_rate.roll(self.messages_in, elapsed_s)
        self.byte_rate = self.byte_rate.roll(self.bytes_in, elapsed_s)

    @property
    def average_size(self) -> float:
        """The average size of a message in bytes, by the current rates; 0 when nothing is published."""
        return self.byte_rate.value / self.message_rate.value if self.message_rate.value else 0.0
