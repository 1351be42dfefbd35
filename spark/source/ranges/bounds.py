"""Where a message stands in a topic partition, and the spellings of it that users, checkpoints and columns hold.

A bound is compared as the triple (ledger, entry, batch index); an id without a batch index stands for its whole entry.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from pulsar_proto.ids import signed64, unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb

WHOLE_ENTRY = 2**31 - 1
"""The batch index of a bound that takes in all messages of its entry."""


class Bound(NamedTuple):
    """The last message of what lies before a cut. `Bound(3, 7)`: up to and with all of entry 7 of ledger 3."""

    ledger: int
    entry: int
    batch_index: int = WHOLE_ENTRY

    def __str__(self) -> str:
        """`ledger:entry`, with `:batch index` only when the cut goes through a batch."""
        inside = "" if self.batch_index == WHOLE_ENTRY else f":{self.batch_index}"
        return f"{self.ledger}:{self.entry}{inside}"

    @property
    def is_before_all(self) -> bool:
        return self.ledger < 0

    @staticmethod
    def parse(text: str) -> "Bound":
        """The reverse of str(). Raises ValueError."""
        numbers = [int(part) for part in text.split(":")]
        if len(numbers) not in (2, 3):
            raise ValueError(f"'{text}' is no message id: expected ledger:entry or ledger:entry:batchIndex")
        return Bound(*numbers)

    def before(self) -> "Bound":
        """The cut just before the message (or the whole entry) that this bound names."""
        if self.batch_index in (WHOLE_ENTRY, 0):
            return Bound(self.ledger, self.entry - 1) if self.entry >= 0 else self
        return Bound(self.ledger, self.entry, self.batch_index - 1)


BEFORE_ALL = Bound(-1, -1)


class Range(NamedTuple):
    """The messages after `after`, up to and with `upto`."""

    after: Bound
    upto: Bound

    @property
    def is_empty(self) -> bool:
        return self.upto <= self.after


def bound_of(message_id: pb.MessageIdData) -> Bound:
    """The bound that takes in the named message and all before it."""
    index = message_id.batch_index if message_id.batch_index >= 0 else WHOLE_ENTRY
    return Bound(signed64(message_id.ledgerId), signed64(message_id.entryId), index)


def wire_id(bound: Bound, partition: int = -1) -> pb.MessageIdData:
    """For SUBSCRIBE and ACK: the entry, never an index inside it."""
    return pb.MessageIdData(
        ledgerId=unsigned64(bound.ledger), entryId=unsigned64(bound.entry), partition=partition, batch_index=-1
    )


def bound_of_value(value: object) -> Bound:
    """What a user writes for one partition: `"ledger:entry[:batch]"`, or MessageIdData's bytes as signed numbers
    (the published connector's form). Raises ValueError."""
    if isinstance(value, str):
        return Bound.parse(value)
    if isinstance(value, Sequence) and all(isinstance(item, int) for item in value):
        try:
            return bound_of(pb.MessageIdData.FromString(bytes(item & 255 for item in value)))
        except DecodeError:
            raise ValueError(f"{list(value)} are not the bytes of a message id") from None
    raise ValueError(f"{value!r} is no message id: expected 'ledger:entry' or the list of its bytes")


def bounds_to_json(bounds: Mapping[str, Bound]) -> dict[str, str]:
    """An offset as checkpoints hold it: partition's full name to bound."""
    return {name: str(bound) for name, bound in sorted(bounds.items())}


def bounds_from_json(offset: Mapping[str, object]) -> dict[str, Bound]:
    """The reverse; also of the published connector's offsets, whose ids are lists of bytes."""
    return {name: bound_of_value(value) for name, value in offset.items()}
