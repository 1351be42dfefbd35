"""Places in a topic partition (`Bound`), ranges of messages, and the forms in which users, checkpoints and columns
write message ids.

Bounds are compared as triples (ledger, entry, batch index). An id without a batch index stands for its whole entry.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from pulsar_proto.ids import signed64, unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb

WHOLE_ENTRY = 2**31 - 1
"""The batch index of a bound that includes all messages of its entry."""


class Bound(NamedTuple):
    """A place between two messages of a partition, named by the last message before the place. `Bound(3, 7)` is the
    place right after entry 7 of ledger 3, and `Bound(3, 7, 0)` the place after the first message of that entry's
    batch."""

    ledger: int
    entry: int
    batch_index: int = WHOLE_ENTRY

    def __str__(self) -> str:
        """Returns `ledger:entry`, or `ledger:entry:batch index` for a bound in the middle of a batch."""
        inside = "" if self.batch_index == WHOLE_ENTRY else f":{self.batch_index}"
        return f"{self.ledger}:{self.entry}{inside}"

    @property
    def is_before_all(self) -> bool:
        return self.ledger < 0

    @staticmethod
    def parse(text: str) -> "Bound":
        """Parses the text that str() makes of a bound. Raises ValueError for any other text."""
        numbers = [int(part) for part in text.split(":")]
        if len(numbers) not in (2, 3):
            raise ValueError(f"'{text}' is no message id: expected ledger:entry or ledger:entry:batchIndex")
        return Bound(*numbers)

    def before(self) -> "Bound":
        """Returns the bound just before the message, or just before the whole entry, that this bound names."""
        if self.batch_index in (WHOLE_ENTRY, 0):
            return Bound(self.ledger, self.entry - 1) if self.entry >= 0 else self
        return Bound(self.ledger, self.entry, self.batch_index - 1)


BEFORE_ALL = Bound(-1, -1)


class Range(NamedTuple):
    """The messages of a partition that come after `after`, up to and including `upto`."""

    after: Bound
    upto: Bound

    @property
    def is_empty(self) -> bool:
        return self.upto <= self.after


def bound_of(message_id: pb.MessageIdData) -> Bound:
    """Returns the bound that includes the named message and all messages before it."""
    index = message_id.batch_index if message_id.batch_index >= 0 else WHOLE_ENTRY
    return Bound(signed64(message_id.ledgerId), signed64(message_id.entryId), index)


def wire_id(bound: Bound, partition: int = -1) -> pb.MessageIdData:
    """Returns the id for SUBSCRIBE and ACK. The id names the bound's entry, never an index inside the entry."""
    return pb.MessageIdData(
        ledgerId=unsigned64(bound.ledger), entryId=unsigned64(bound.entry), partition=partition, batch_index=-1
    )


def bound_of_value(value: object) -> Bound:
    """Returns the bound for the value that a user writes for one partition: `"ledger:entry[:batch]"` or, as for the
    published connector, the bytes of MessageIdData as signed numbers. Raises ValueError for any other value."""
    if isinstance(value, str):
        return Bound.parse(value)
    if isinstance(value, Sequence) and all(isinstance(item, int) for item in value):
        try:
            return bound_of(pb.MessageIdData.FromString(bytes(item & 255 for item in value)))
        except DecodeError:
            raise ValueError(f"{list(value)} are not the bytes of a message id") from None
    raise ValueError(f"{value!r} is no message id: expected 'ledger:entry' or the list of its bytes")


def bounds_to_json(bounds: Mapping[str, Bound]) -> dict[str, str]:
    """Returns an offset as checkpoints hold it: the full name of each partition with its bound as text."""
    return {name: str(bound) for name, bound in sorted(bounds.items())}


def bounds_from_json(offset: Mapping[str, object]) -> dict[str, Bound]:
    """Returns the bounds of an offset that a checkpoint holds, ours or the published connector's, whose ids are lists
    of bytes. Raises ValueError for any other content."""
    return {name: bound_of_value(value) for name, value in offset.items()}
