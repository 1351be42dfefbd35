"""Chooses the partition of each message, as the Java client does. This module does no I/O.

A message with a key goes to the partition that the key's hash chooses. A message without a key goes to the partition
that was chosen once for the producer, or, in round robin, to the next partition. Sources:
SinglePartitionMessageRouterImpl, RoundRobinPartitionMessageRouterImpl, JavaStringHash, Murmur3_32Hash.
"""

from mmh3 import mmh3_32_uintdigest

from magnetar.server.websocket.json_message_rules import MessageFault, SocketError
from magnetar.server.websocket.producer_options_rules import MURMUR, ROUND_ROBIN
from pulsar_proto.routing_hash import java_string_hash

KEY_CHARACTERS_MAX = 32_768
"""The longest key on a partitioned topic. A message with a longer key is refused, because the hash would take
milliseconds."""

_NON_NEGATIVE = 0x7FFF_FFFF


class Router:
    """Chooses among `partitions`, whose number may grow. A topic without partitions counts as one partition."""

    def __init__(self, partitions: int, routing: str, hashing_scheme: str, first: int, *, by_batch: bool) -> None:
        """`first` is a random number; `by_batch` says that a partition is kept until `batch_left` is called."""
        self.partitions = partitions
        self._round_robin = routing == ROUND_ROBIN
        self._hash = murmur_hash if hashing_scheme == MURMUR else java_string_hash
        self._next = first
        self._by_batch = by_batch

    def choose(self, key: str | None) -> int:
        """Returns the index of a message's partition. Raises MessageFault for a key that is too long to be hashed."""
        if self.partitions <= 1:
            return 0
        if key is not None:
            if len(key) > KEY_CHARACTERS_MAX:
                text = f"A key of {len(key)} characters: on a partitioned topic it may have {KEY_CHARACTERS_MAX}"
                raise MessageFault(SocketError.PAYLOAD_ENCODING_ERROR, text)
            return self._hash(key) % self.partitions
        chosen = self._next % self.partitions
        if self._round_robin and not self._by_batch:
            self._next += 1
        return chosen

    def batch_left(self) -> None:
        """Called when a batch was sent. In round robin, messages without keys go to the next partition from now on."""
        if self._round_robin:
            self._next += 1


def murmur_hash(key: str) -> int:
    return int(mmh3_32_uintdigest(key.encode("utf-8", "surrogatepass"), 0)) & _NON_NEGATIVE
