"""Decides when a producer or reader that lost its broker tries again, and after which errors it gives up.

The first attempt after a success follows at once: a broker that closes a producer has already given the topic away, and
the next lookup finds the new owner. Apache's clients pause before this first attempt. For this reason Apache's brokers
need up to half a minute until they read the topics' policies again (ConnectionHandler, Backoff).
"""

from pulsar_proto.backoff import backoff
from pulsar_proto.errors import (
    AuthenticationFault,
    AuthorizationFault,
    IncompatibleSchema,
    InvalidTopicName,
    NotAllowed,
    ProducerFenced,
    TopicNotFound,
    TopicTerminated,
)

PAUSE_FIRST_SECONDS = 0.05
PAUSE_MAX_SECONDS = 1.0
"""The longest pause. The pause is short, because loads of topics may wait for a reader."""
JITTER = 0.2
"""The fraction of a pause by which the pause is shortened at most, at random, so that the producers and readers of a
lost broker do not reconnect all at once."""

FATAL = (
    AuthenticationFault,
    AuthorizationFault,
    IncompatibleSchema,
    InvalidTopicName,
    NotAllowed,
    ProducerFenced,
    TopicNotFound,
    TopicTerminated,
)
"""The refusals after which no further attempt can succeed. After any other error, the next attempt may succeed."""


class Retries:
    """Counts the failures in a row of one producer or reader."""

    def __init__(self, pause_max_seconds: float = PAUSE_MAX_SECONDS) -> None:
        self._pause_max_s = pause_max_seconds
        self.failures = 0

    def succeeded(self) -> None:
        self.failures = 0

    def pause(self, chance: float) -> float:
        """Returns the seconds to wait before the next attempt, after one more failure or loss. `chance` is a random
        number from 0 to 1."""
        self.failures += 1
        if self.failures == 1:
            return 0.0
        pause = backoff(self.failures - 1, PAUSE_FIRST_SECONDS, self._pause_max_s)
        return pause * (1 - JITTER * chance)
