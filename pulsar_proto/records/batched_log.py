"""The frame around an entry that holds several records of a log of transactions, of which there are two kinds: the log
of a coordinator, and the log of a subscription's pending acknowledgements.

An entry with one record is the record's bare protobuf, whose first byte is the tag of its field 1. An entry with more
begins with a magic number and a version (TxnLogBufferedWriter.BATCHED_ENTRY_DATA_PREFIX_MAGIC_NUMBER and
BATCHED_ENTRY_DATA_PREFIX_VERSION).
"""

import struct
from collections.abc import Sequence

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.varint import LAST_BYTE, varint

MAGIC = 0x0E01
VERSION = 1

_PREFIX = struct.Struct(">HH")
PREFIX_SIZE = _PREFIX.size

PREFIX = _PREFIX.pack(MAGIC, VERSION)
_MAGIC = PREFIX[:2]
RECORD_TAG = 0x0A
"""The tag of a record in a batch: field 1, which has a length."""


def batch_entry(records: Sequence[bytes]) -> bytes:
    """Returns the entry that holds several serialized records. Both kinds of logs have the records of a batch in the
    batch's field 1. A batch may have a single record."""
    parts = [PREFIX]
    for record in records:
        parts += (LAST_BYTE[RECORD_TAG], varint(len(record)), record)
    return b"".join(parts)


def batch_of(entry: bytes) -> bytes | None:
    """Returns the protobuf of the batch that the entry holds, or None for an entry that is a single bare record. Raises
    MalformedRecord for a batch of a version that this code does not know."""
    if entry[:2] != _MAGIC:
        return None
    if len(entry) < PREFIX_SIZE:
        raise MalformedRecord("a batch of transaction records ends within its prefix")
    version = _PREFIX.unpack_from(entry)[1]
    if version != VERSION:
        raise MalformedRecord(f"a batch of transaction records has the unknown version {version}")
    return entry[PREFIX_SIZE:]
