"""The identities that all layers share."""

from typing import NamedTuple

I64_MAX = 2**63 - 1
NO_REQUEST_ID = 2**64 - 1
"""The request id of frames that answer no request (Java's -1): broker-made CLOSE_* and ERROR before CONNECTED."""


class Position(NamedTuple):
    """A place in a managed ledger: ordered by ledger, then by entry. Entry -1 stands before a ledger's first entry."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        """`ledger:entry`, as Pulsar prints positions in stats and logs."""
        return f"{self.ledger_id}:{self.entry_id}"


EARLIEST = Position(-1, -1)
LATEST = Position(I64_MAX, I64_MAX)


def signed64(value: int) -> int:
    """The two's complement reading of an unsigned 64-bit value: a MessageIdData's -1 arrives as 2^64-1."""
    return value - 2**64 if value > I64_MAX else value


def unsigned64(value: int) -> int:
    """The reverse of `signed64`, for protobuf fields of type uint64 that carry -1."""
    return value & 0xFFFF_FFFF_FFFF_FFFF
