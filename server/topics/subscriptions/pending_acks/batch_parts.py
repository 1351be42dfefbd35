"""Which messages of an entry an acknowledgement in a transaction covers. Does no I/O."""

from typing import NamedTuple

from magnetar.storage.managed.ack_sets import mask_of_words, words_of_mask
from pulsar_proto.records.pending_ack_log import PendingPosition

BATCH_MESSAGES_MAX = 65_536
"""The most messages of a batch that can be held one by one. A client that says that its batch is larger only gets this
many, because each costs a bit of the broker's memory."""


class BatchPart(NamedTuple):
    """Some messages of a batch."""

    bits: int
    """Bit n stands for the message with batch index n."""
    size: int
    """How many messages the batch holds."""

    @property
    def rest(self) -> int:
        """The messages of the batch that are not in this part, as bits."""
        return ~self.bits & ((1 << self.size) - 1)

    def joined(self, other: "BatchPart") -> "BatchPart":
        return BatchPart(self.bits | other.bits, max(self.size, other.size))


WHOLE = BatchPart(-1, 0)
"""All messages of an entry."""


def part_of(position: PendingPosition) -> BatchPart:
    """Returns the messages of an entry that an individual acknowledgement covers."""
    if not any(position.ack_set):
        return WHOLE
    rest = mask_of_words(position.ack_set)
    named = position.batch_size or 64 * len(position.ack_set)
    size = min(max(named, rest.bit_length()), BATCH_MESSAGES_MAX)
    part = BatchPart(~rest & ((1 << size) - 1), size)
    return part if part.rest else WHOLE


def position_of(key: tuple[int, int], part: BatchPart) -> PendingPosition:
    """Returns the individual acknowledgement that covers this part of the entry (ledger, entry)."""
    if part is WHOLE:
        return PendingPosition(*key)
    return PendingPosition(*key, tuple(words_of_mask(part.rest)), part.size)
