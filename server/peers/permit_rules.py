"""Decides how many messages a broker may send ahead to a consumer, so that about `BYTES_AHEAD_MAX` are on their way.

Permits count messages, so the bytes are estimated from the sizes of the messages that came before. The estimate keeps
the usual case small; the hard bound is that the link is not read while its consumers have no room.
"""

PERMITS_MAX = 1_000
"""How many messages may be on their way, however small they are (receiverQueueSize)."""
BYTES_AHEAD_MAX = 1 << 20
"""How many bytes may be on their way, by the estimate. One message may always be, however large it is."""
FIRST_ESTIMATE_BYTES = 16 << 10
"""The size of a message that is expected before any message came."""
SMOOTHING = 8
"""One new entry changes the estimate by one SMOOTHING-th of the difference."""


class ConsumerPermits:
    """The permits of one consumer."""

    def __init__(self) -> None:
        self.permits = 0
        """How many messages the broker may still send. Negative after a batch that held more messages than permits were
        left."""
        self._bytes_per_message = float(FIRST_ESTIMATE_BYTES)

    def grant(self, wanted: int) -> int:
        """Returns how many permits the broker gets now if the consumer wants `wanted` further messages. Returns 0
        unless half of the permits that the consumer may have are used up."""
        room = int(BYTES_AHEAD_MAX / max(1.0, self._bytes_per_message))
        most = min(self.permits + wanted, PERMITS_MAX, max(1, room))
        more = most - self.permits
        if more <= 0 or 2 * self.permits >= most:
            return 0
        self.permits += more
        return more

    def received(self, messages: int, size_bytes: int) -> None:
        """Called when an entry with `messages` messages came."""
        self.permits -= messages
        self._bytes_per_message += (size_bytes / messages - self._bytes_per_message) / SMOOTHING
