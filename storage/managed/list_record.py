"""The stored form of a ledger list: ManagedLedgerInfo of Pulsar's MLDataFormats.proto.

A closed ledger has id, entries, size and timestamp; the open ledger has only its id and timestamp 0. Fields that we do
not interpret (offload contexts, ledger properties, fields of later versions) are kept when the record is rewritten.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from magnetar.storage.managed.ledger_list import LedgerInfo
from pulsar_proto.ids import Position
from pulsar_proto.pb import managed_ledger_pb2 as pb
from pulsar_proto.records.managed_record import parse_managed_ledger_info


@dataclass(frozen=True, slots=True)
class ListRecord:
    """A parsed record. `extra` has the fields that we do not know, serialised."""

    ledgers: tuple[LedgerInfo, ...] = ()
    terminated: Position | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    extra: bytes = b""


def parse_list(value: bytes) -> ListRecord:
    """Reads a record. An empty value is a new managed ledger. Raises MalformedRecord."""
    if not value:
        return ListRecord()
    info = parse_managed_ledger_info(value)
    ledgers = tuple(_ledger(ledger) for ledger in info.ledgerInfo)
    terminated = None
    if info.HasField("terminatedPosition"):
        terminated = Position(info.terminatedPosition.ledgerId, info.terminatedPosition.entryId)
    properties = {pair.key: pair.value for pair in info.properties}
    info.ClearField("ledgerInfo")
    info.ClearField("terminatedPosition")
    info.ClearField("properties")
    return ListRecord(ledgers, terminated, properties, info.SerializeToString())


def serialize_list(
    ledgers: Iterable[LedgerInfo], terminated: Position | None, properties: Mapping[str, str], extra: bytes
) -> bytes:
    """Returns the record's value. The ledgers must be in the order of their ids."""
    info = pb.ManagedLedgerInfo()
    for ledger in ledgers:
        item = info.ledgerInfo.add(ledgerId=ledger.ledger_id, timestamp=ledger.closed_ms)
        if ledger.entries:
            item.entries = ledger.entries
            item.size = ledger.size
        if ledger.extra:
            item.MergeFromString(ledger.extra)
    if terminated is not None:
        info.terminatedPosition.ledgerId, info.terminatedPosition.entryId = terminated
    for key, value in properties.items():
        info.properties.add(key=key, value=value)
    return info.SerializeToString() + extra


def _ledger(ledger: pb.ManagedLedgerInfo.LedgerInfo) -> LedgerInfo:
    """Returns a ledger of the record. Its `extra` holds the fields that we do not interpret."""
    offload = ledger.offloadContext
    offloaded_only = offload.complete and offload.bookkeeperDeleted
    ledger_id, entries, size, closed_ms = ledger.ledgerId, ledger.entries, ledger.size, ledger.timestamp
    ledger.ClearField("entries")
    ledger.ClearField("size")
    ledger.ClearField("timestamp")
    # `extra` includes the id, which is a required field; merging sets it to the same value again.
    extra = ledger.SerializeToString() if ledger.ByteSize() > _id_size(ledger_id) else b""
    return LedgerInfo(ledger_id, entries, size, closed_ms, offloaded_only, extra)


def _id_size(ledger_id: int) -> int:
    return pb.ManagedLedgerInfo.LedgerInfo(ledgerId=ledger_id).ByteSize()
