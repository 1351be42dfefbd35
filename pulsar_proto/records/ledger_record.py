"""The metadata of a ledger as BookKeeper keeps it in the metadata store, and the path of its record.

A record is the line `BookieMetadataFormatVersion\\t<N>\\n` and a body: in version 3 a delimited LedgerMetadataFormat,
in version 2 the same message in protobuf's text format without cToken, in version 1 lines of text. A writer keeps the
version that it read; new ledgers get version 3. See docs/WIRE_FORMATS.md, "Ledger metadata"; source:
LedgerMetadataSerDe of BookKeeper 4.17, and for the paths LegacyHierarchicalLedgerManager and
LongHierarchicalLedgerManager.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Self

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.records.entry_digest import DigestType
from pulsar_proto.text import check_text
from pulsar_proto.varint import varint, varint_at

LEDGERS_ROOT = "/ledgers"
NEWEST_FORMAT = 3
_MAGIC = b"BookieMetadataFormatVersion\t"
_V1_IN_RECOVERY = -102
_SHORT_ID_LIMIT = 2**31 - 1
_DELIMITER_BYTES_MAX = 5
"""The longest varint before a delimited message, in bytes: five hold any size that a record may have."""

Ensembles = tuple[tuple[int, tuple[str, ...]], ...]
"""The pair (first entry id, bookie ids) of each ensemble, in rising order; the first ensemble starts at entry 0. The
order of the bookies decides which of them hold an entry."""


class LedgerState(IntEnum):
    """A ledger goes from OPEN to CLOSED by its writer, or from OPEN to IN_RECOVERY to CLOSED by somebody else."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """The facts that the metadata store holds about one ledger. A copy by `dataclasses.replace` keeps the fields that
    are unknown here."""

    ledger_id: int
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    ensembles: Ensembles
    state: LedgerState = LedgerState.OPEN
    last_entry_id: int = -1
    """The id of the last entry; -1 until the ledger is closed, and for a ledger that was closed without entries."""
    length: int = 0
    """The sum of the payloads' bytes; 0 until the ledger is closed."""
    digest_type: DigestType | None = DigestType.CRC32C
    """The digest type; None when the record names none (version 1), or names a type that is unknown here. A rewrite
    keeps an unknown type."""
    password: bytes | None = b""
    """The password in plain text, as Java stores it; None only in version 1."""
    custom_metadata: Mapping[str, bytes] = field(default_factory=dict)
    ctoken: int | None = 0
    """A random number that the creator writes, to recognise the record as its own; 0 in every later write."""
    ctime: int | None = None
    """The creation time in milliseconds since the epoch. This field is usually absent; in that case the creation time
    of the record counts."""
    format_version: int = NEWEST_FORMAT
    unknown_fields: bytes = b""
    """Fields of a later version, serialized."""

    def __post_init__(self) -> None:
        if not 1 <= self.ack_quorum <= self.write_quorum <= self.ensemble_size:
            raise MalformedRecord(
                f"ledger {self.ledger_id}: 1 <= ack quorum {self.ack_quorum} <= write quorum {self.write_quorum} "
                f"<= ensemble {self.ensemble_size} does not hold"
            )
        previous = -1
        for first_entry_id, bookies in self.ensembles:
            if first_entry_id <= previous or len(bookies) != self.ensemble_size:
                raise MalformedRecord(f"ledger {self.ledger_id}: ensemble {bookies} at {first_entry_id} is impossible")
            previous = first_entry_id
        if not self.ensembles:
            raise MalformedRecord(f"ledger {self.ledger_id} has no ensemble")

    @property
    def is_closed(self) -> bool:
        return self.state is LedgerState.CLOSED

    @property
    def last_ensemble(self) -> tuple[int, tuple[str, ...]]:
        """Returns (first entry id, bookies) of the ensemble that is written to."""
        return self.ensembles[-1]

    def closed(self, last_entry_id: int, length: int) -> Self:
        """Returns the metadata with the ledger closed. The rewrite clears ctoken, as Java's builder does."""
        return replace(self, state=LedgerState.CLOSED, last_entry_id=last_entry_id, length=length, ctoken=0)

    def serialize(self) -> bytes:
        """Returns the record in its `format_version`. Raises MalformedRecord when version 1 has no field for a
        value."""
        head = _MAGIC + str(self.format_version).encode() + b"\n"
        if self.format_version == 1:
            return head + _to_lines(self)
        message = _to_message(self)
        if self.format_version == 2:
            message.ClearField("cToken")
            return head + text_format.MessageToString(message, as_utf8=False).encode("ascii")
        body = message.SerializeToString() + self.unknown_fields
        return head + varint(len(body)) + body

    @staticmethod
    def parse(ledger_id: int, record: bytes) -> "LedgerMetadata":
        """Parses a record of any of the three versions. Raises MalformedRecord for any other bytes."""
        first_line, newline, body = record.partition(b"\n")
        version = first_line.removeprefix(_MAGIC)
        if not newline or version == first_line:
            raise MalformedRecord(f"ledger {ledger_id}: metadata begins with {record[:40]!r}")
        try:
            if version == b"3":
                return _from_message(ledger_id, _undelimited(ledger_id, body), 3)
            if version == b"2":
                return _from_message(ledger_id, text_format.Parse(body, pb.LedgerMetadataFormat()), 2)
            if version == b"1":
                return _from_lines(ledger_id, body.decode())
        except (DecodeError, text_format.ParseError, ValueError) as error:
            raise MalformedRecord(f"ledger {ledger_id}: metadata does not decode: {error}") from error
        raise MalformedRecord(f"ledger {ledger_id}: metadata has version {version!r}, known are 1 to 3")


def ledger_path(ledger_id: int, root: str = LEDGERS_ROOT) -> str:
    """Returns a path like `/ledgers/00/0001/L2345`. For ids from 2^31-1 on, the path has five parts, like
    `/ledgers/000/0000/0042/9496/L7303`."""
    if ledger_id < 0:
        raise ValueError(f"ledger id {ledger_id}")
    if ledger_id < _SHORT_ID_LIMIT:
        digits = f"{ledger_id:010d}"
        return f"{root}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    return f"{root}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def ledger_id_of_path(path: str, root: str = LEDGERS_ROOT) -> int | None:
    """Returns the id of the ledger whose record stands at `path`; None when the path cannot be that of a ledger's
    record."""
    parts = path.removeprefix(root + "/").split("/")
    digits = "".join(parts[:-1]) + parts[-1].removeprefix("L")
    if not digits.isascii() or not digits.isdigit():
        return None
    ledger_id = int(digits)
    return ledger_id if ledger_path(ledger_id, root) == path else None


def _undelimited(ledger_id: int, body: bytes) -> pb.LedgerMetadataFormat:
    size, start = varint_at(body, 0, min(_DELIMITER_BYTES_MAX, len(body)))
    message = body[start : start + size]
    if start == 0 or body[start - 1] >= 128 or len(message) != size:
        raise MalformedRecord(f"ledger {ledger_id}: metadata of {len(body)} bytes is cut")
    return pb.LedgerMetadataFormat.FromString(message)


def _to_message(metadata: LedgerMetadata) -> pb.LedgerMetadataFormat:
    message = pb.LedgerMetadataFormat(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.length,
        lastEntryId=metadata.last_entry_id,
        state=pb.LedgerMetadataFormat.State.ValueType(metadata.state),
        password=metadata.password,
        ackQuorumSize=metadata.ack_quorum,
        ctime=metadata.ctime,
        cToken=metadata.ctoken,
    )
    if metadata.digest_type is not None:
        message.digestType = pb.LedgerMetadataFormat.DigestType.ValueType(metadata.digest_type)
    for first_entry_id, bookies in metadata.ensembles:
        message.segment.add(ensembleMember=bookies, firstEntryId=first_entry_id)
    for key, value in metadata.custom_metadata.items():
        message.customMetadata.add(key=key, value=value)
    return message


def _from_message(ledger_id: int, message: pb.LedgerMetadataFormat, version: int) -> LedgerMetadata:
    if not message.IsInitialized():
        raise MalformedRecord(f"ledger {ledger_id}: metadata lacks a required field")
    check_text(message)
    ensembles = tuple((segment.firstEntryId, tuple(segment.ensembleMember)) for segment in message.segment)
    metadata = LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize if message.HasField("ackQuorumSize") else message.quorumSize,
        ensembles=ensembles,
        state=LedgerState(message.state),
        last_entry_id=message.lastEntryId if message.HasField("lastEntryId") else -1,
        length=message.length,
        digest_type=DigestType(message.digestType) if message.HasField("digestType") else None,
        password=message.password if message.HasField("password") else None,
        custom_metadata={entry.key: entry.value for entry in message.customMetadata},
        ctoken=message.cToken if message.HasField("cToken") else None,
        ctime=message.ctime if message.HasField("ctime") else None,
        format_version=version,
    )
    for descriptor in message.DESCRIPTOR.fields:
        message.ClearField(descriptor.name)  # type: ignore[arg-type]
    unknown_fields = message.SerializePartialToString()
    return replace(metadata, unknown_fields=unknown_fields) if unknown_fields else metadata


def _to_lines(metadata: LedgerMetadata) -> bytes:
    if metadata.ack_quorum != metadata.write_quorum or metadata.digest_type is not None or metadata.custom_metadata:
        raise MalformedRecord(
            f"ledger {metadata.ledger_id}: version 1 has no room for quorum, digest or custom metadata"
        )
    lines = [str(metadata.write_quorum), str(metadata.ensemble_size), str(metadata.length)]
    lines += ["\t".join((str(first), *bookies)) for first, bookies in metadata.ensembles]
    if metadata.state is not LedgerState.OPEN:
        last = metadata.last_entry_id if metadata.is_closed else _V1_IN_RECOVERY
        lines.append(f"{last}\tCLOSED")
    return "\n".join(lines).encode()


def _from_lines(ledger_id: int, text: str) -> LedgerMetadata:
    write_quorum, ensemble_size, length, *rest = text.split("\n")
    state, last_entry_id = LedgerState.OPEN, -1
    ensembles = []
    for line in rest:
        first, *bookies = line.split("\t")
        if bookies == ["CLOSED"]:
            last_entry_id = int(first)
            state = LedgerState.CLOSED
            if last_entry_id == _V1_IN_RECOVERY:
                state, last_entry_id = LedgerState.IN_RECOVERY, -1
        else:
            ensembles.append((int(first), tuple(bookies)))
    return LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=int(ensemble_size),
        write_quorum=int(write_quorum),
        ack_quorum=int(write_quorum),
        ensembles=tuple(ensembles),
        state=state,
        last_entry_id=last_entry_id,
        length=int(length),
        digest_type=None,
        password=None,
        ctoken=None,
        format_version=1,
    )
