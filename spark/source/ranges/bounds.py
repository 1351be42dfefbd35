"""Places in a topic partition (`Bound`), ranges of messages, and the forms in which users, checkpoints and columns
write message ids.

Bounds are compared as triples (ledger, entry, batch index). An id without a batch index stands for its whole entry.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from pulsar_proto.ids import signed64, unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb

_PRINTED_ID = re.compile(r"\(?(-?\d+([:,]-?\d+)+)\)?")
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
        """Returns `ledger:entry`, or `ledger:entry:-1:batch index` for a bound in the middle of a batch. Clients print
        ids in this form, with the partition in the third place; -1 leaves the partition open. So whatever is written
        down or shown can be given as an option."""
        inside = "" if self.batch_index == WHOLE_ENTRY else f":-1:{self.batch_index}"
        return f"{self.ledger}:{self.entry}{inside}"

    @property
    def is_before_all(self) -> bool:
        return self.ledger < 0

    @staticmethod
    def parse(text: str) -> "Bound":
        """Parses the text that str() makes of a bound, and what older checkpoints hold: `ledger:entry:batch index`.
        Raises ValueError for any other text."""
        numbers = [int(part) for part in text.split(":")]
        if len(numbers) == 4:
            del numbers[2]
        if len(numbers) not in (2, 3):
            raise ValueError(f"'{text}' is no message id: expected ledger:entry or ledger:entry:partition:batchIndex")
        return Bound(*numbers)

    def before(self) -> "Bound":
        """Returns the bound just before the message, or just before the whole entry, that this bound names."""
        if self.batch_index in (WHOLE_ENTRY, 0):
            return Bound(self.ledger, self.entry - 1) if self.entry >= 0 else self
        return Bound(self.ledger, self.entry, self.batch_index - 1)

    def before_entry(self) -> "Bound":
        """Returns this bound if it is the end of an entry, and otherwise the end of the entry before the one that it
        lies in."""
        return self if self.batch_index == WHOLE_ENTRY else Bound(self.ledger, self.entry - 1)


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


def bound_of_value(value: object, partition: int) -> Bound:
    """Returns the bound for the id that a user writes for one partition: a text as clients print it (`bound_of_text`)
    or, as for the published connector, the bytes of MessageIdData as signed numbers. `partition` is the partition's
    number, or -1 for a topic without partitions. Raises ValueError for any other value, and for the id of another
    partition."""
    if isinstance(value, str):
        return bound_of_text(value, partition)
    bound, named = _bound_of_bytes(value)
    _check_partition(str(value), named, partition)
    return bound


def bound_of_text(text: str, partition: int) -> Bound:
    """Returns the bound for an id as clients print it: `ledger:entry`, `ledger:entry:partition` (MessageIdImpl.toString
    in Java, and Go) or `ledger:entry:partition:batch index` (BatchMessageIdImpl.toString), also with commas and in
    parentheses (C++, Python and Node.js). A partition or batch index of -1 is not said. Raises ValueError for any other
    text, and for the id of another partition."""
    parsed = _PRINTED_ID.fullmatch(text.strip())
    numbers = [int(number) for number in re.split("[:,]", parsed[1])] if parsed else []
    if not 2 <= len(numbers) <= 4 or any(number < -1 for number in numbers):
        raise ValueError(f"'{text}' is no message id: expected ledger:entry, or ledger:entry:partition:batchIndex")
    ledger, entry, named, index = [*numbers, *[-1] * (4 - len(numbers))]
    _check_partition(text, named, partition)
    return Bound(ledger, entry, WHOLE_ENTRY if index < 0 else index)


def _check_partition(text: str, named: int, partition: int) -> None:
    if named not in (-1, partition):
        here = f"partition {partition}" if partition >= 0 else "a topic without partitions"
        raise ValueError(
            f"'{text}' is an id of partition {named} and is given for {here}; "
            "an id inside a batch is written ledger:entry:partition:batchIndex, where partition may be -1"
        )


def _bound_of_bytes(value: object) -> tuple[Bound, int]:
    """Returns the bound and the partition, -1 if there is none, of an id that is given as a list of signed bytes."""
    if isinstance(value, Sequence) and all(isinstance(item, int) for item in value):
        try:
            message_id = pb.MessageIdData.FromString(bytes(item & 255 for item in value))
        except DecodeError:
            raise ValueError(f"{list(value)} are not the bytes of a message id") from None
        return bound_of(message_id), message_id.partition
    raise ValueError(f"{value!r} is no message id: expected 'ledger:entry' or the list of its bytes")


def bounds_to_json(bounds: Mapping[str, Bound]) -> dict[str, str]:
    """Returns an offset as checkpoints hold it: the full name of each partition with its bound as text."""
    return {name: str(bound) for name, bound in sorted(bounds.items())}


def bounds_from_json(offset: Mapping[str, object]) -> dict[str, Bound]:
    """Returns the bounds of an offset that a checkpoint holds, ours or the published connector's, whose ids are lists
    of bytes. Raises ValueError for any other content."""
    return {
        name: Bound.parse(value) if isinstance(value, str) else _bound_of_bytes(value)[0]
        for name, value in offset.items()
    }
