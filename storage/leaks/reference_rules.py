"""Which ledgers a record refers to: the references in the bytes of every kind of record of Pulsar that names ledgers.

The functions take the value of one record, or the payload of one entry, and raise MalformedRecord for bytes that they
cannot read; a caller then has to treat everything that this record could name as referred to.

Sources: MetaStoreImpl, ManagedCursorImpl, CompactedTopicImpl (CompactedTopicLedger), ImmutableBucket
(CURSOR_INTERNAL_PROPERTY_PREFIX), BookkeeperSchemaStorage, LogSegmentMetadata of DistributedLog.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.pb import managed_ledger_pb2 as pb
from pulsar_proto.records.managed_record import (
    parse_managed_cursor_info,
    parse_managed_ledger_info,
    parse_position_info,
)

COMPACTION_CURSOR = "__compaction"
COMPACTED_LEDGER_PROPERTY = "CompactedTopicLedger"
BUCKET_PROPERTY_PREFIX = "#pulsar.internal.delayed.bucket"

_LOG_SEGMENT = re.compile(rb"\d+;(\d+)(;-?\d+)*;?\s*")
"""Matches a log segment's record: version and state; ledger id; further numbers."""


class Role(StrEnum):
    """What a ledger is to the record that refers to it."""

    MESSAGES = "messages of a topic"
    OFFLOADED = "offloaded messages of a topic"
    CURSOR = "acknowledgements of a subscription"
    COMPACTED = "compacted messages of a topic"
    BUCKET = "delayed messages of a subscription"
    SCHEMA = "version of a schema"
    LOG_SEGMENT = "log segment of DistributedLog"


@dataclass(frozen=True, slots=True)
class Reference:
    """One record, or one entry, that names a ledger."""

    ledger_id: int
    role: Role
    path: str
    """The path of the record in its metadata store."""
    keeps: bool = True
    """Whether the ledger is in use because of this reference. It is not if the record says that the ledger was
    deleted after its messages were offloaded."""
    is_current: bool = True
    """Whether the ledger has to be there. A cursor's record may still name a compacted ledger that the cursor's ledger
    has replaced: the reference is respected, but nothing is lost if that ledger is gone."""

    @property
    def is_dangling_if_gone(self) -> bool:
        """Whether data are lost if the ledger is not there."""
        return self.keeps and self.is_current


def references_of_managed_ledger(path: str, value: bytes) -> list[Reference]:
    """Returns the references of a ManagedLedgerInfo. A ledger whose messages are only being copied to other storage is
    still in use."""
    found = []
    for ledger in parse_managed_ledger_info(value).ledgerInfo:
        role = Role.OFFLOADED if ledger.offloadContext.complete else Role.MESSAGES
        deleted = ledger.offloadContext.complete and ledger.offloadContext.bookkeeperDeleted
        found.append(Reference(ledger.ledgerId, role, path, keeps=not deleted))
    return found


@dataclass(frozen=True, slots=True)
class CursorReferences:
    """The references of a cursor's record. `ledger_id` is the cursor's own ledger, or None."""

    ledger_id: int | None
    references: list[Reference]


def references_of_cursor(path: str, value: bytes) -> CursorReferences:
    """Returns the references of a ManagedCursorInfo: the cursor's own ledger, the buckets of delayed messages, and the
    compacted ledger. A record that names a ledger for the cursor's state counts as old about the compacted ledger."""
    info = parse_managed_cursor_info(value)
    own = info.cursorsLedgerId if info.cursorsLedgerId >= 0 else None
    found = [] if own is None else [Reference(own, Role.CURSOR, path)]
    for text in info.cursorProperties:
        if text.name.startswith(BUCKET_PROPERTY_PREFIX):
            if not (text.value.isascii() and text.value.isdecimal()):
                raise MalformedRecord(f"{path}: the property {text.name} is {text.value[:40]!r}, and not a ledger's id")
            found.append(Reference(int(text.value), Role.BUCKET, path))
    found += [
        Reference(number.value, Role.COMPACTED, path, is_current=own is None)
        for number in info.properties
        if number.name == COMPACTED_LEDGER_PROPERTY
    ]
    return CursorReferences(own, found)


def references_of_cursor_entry(path: str, payload: bytes, *, is_last: bool) -> list[Reference]:
    """Returns the references of an entry in the ledger of the cursor `path`. Only the last entry counts for a broker
    that opens the cursor."""
    return [
        Reference(number.value, Role.COMPACTED, path, is_current=is_last)
        for number in parse_position_info(payload).properties
        if number.name == COMPACTED_LEDGER_PROPERTY
    ]


def references_of_schema(path: str, value: bytes) -> list[Reference]:
    """Returns the references of a SchemaLocator: its newest version, and all versions of its index."""
    locator = pb.SchemaLocator()
    _parse(path, locator, value)
    return _of_index(path, [locator.info, *locator.index])


def references_of_schema_entry(path: str, payload: bytes) -> list[Reference]:
    """Returns the references of a SchemaEntry, the entry of a version's ledger: the versions before it. The entry of
    the first version names no ledger; Apache's broker writes -1 there."""
    entry = pb.SchemaEntry()
    _parse(path, entry, payload)
    return _of_index(path, list(entry.index))


def _of_index(path: str, index: list[pb.SchemaIndexEntry]) -> list[Reference]:
    ledgers = dict.fromkeys(each.position.ledgerId for each in index if each.position.ledgerId >= 0)
    return [Reference(ledger_id, Role.SCHEMA, path) for ledger_id in ledgers]


def _parse(path: str, message: pb.SchemaLocator | pb.SchemaEntry, data: bytes) -> None:
    try:
        message.MergeFromString(data)
    except DecodeError as error:
        raise MalformedRecord(f"{path}: {message.DESCRIPTOR.name} does not decode: {error}") from error
    if not message.IsInitialized():
        raise MalformedRecord(f"{path}: {message.DESCRIPTOR.name} lacks a required field")


def references_of_log_segment(path: str, value: bytes) -> list[Reference]:
    """Returns the reference of a record below a namespace of DistributedLog, or nothing for a record that is not that
    of a log segment. Never fails: ledgers of DistributedLog bear no sign of Pulsar, so none of them is ever taken for
    an orphan, and this reference only explains the ledger."""
    match = _LOG_SEGMENT.fullmatch(value)
    return [Reference(int(match[1]), Role.LOG_SEGMENT, path)] if match else []
