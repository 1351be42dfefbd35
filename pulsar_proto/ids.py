"""Positions in a managed ledger, and the ids that all layers share."""

from typing import NamedTuple

I64_MAX = 2**63 - 1
NO_REQUEST_ID = 2**64 - 1
"""The request id in frames that answer no request (Java's -1): a broker's own CLOSE_PRODUCER and CLOSE_CONSUMER, and an
ERROR before CONNECTED."""


class Position(NamedTuple):
    """A place in a managed ledger. Positions are ordered by ledger, then by entry; entry -1 stands before the first
    entry of its ledger."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        """Returns `ledger:entry`, as Pulsar prints positions in stats and logs."""
        return f"{self.ledger_id}:{self.entry_id}"


class TxnId(NamedTuple):
    """The id of a transaction: the transaction coordinator that began it, and that coordinator's count."""

    most: int
    least: int

    def __str__(self) -> str:
        """Returns `(most,least)`, as Pulsar prints transaction ids (TxnID.toString)."""
        return f"({self.most},{self.least})"


EARLIEST = Position(-1, -1)
LATEST = Position(I64_MAX, I64_MAX)


def signed64(value: int) -> int:
    """Returns an unsigned 64-bit value read as two's complement: the -1 of a MessageIdData arrives as 2^64-1."""
    return value - 2**64 if value > I64_MAX else value


def unsigned64(value: int) -> int:
    """Returns the unsigned value of a signed 64-bit one, the reverse of `signed64`, for protobuf fields of type uint64
    that may carry -1."""
    return value & 0xFFFF_FFFF_FFFF_FFFF
