"""Stored entries: header, digest and payload, as a BookKeeper client makes and checks them.

    i64 ledgerId | i64 entryId | i64 lastAddConfirmed | i64 length | digest | payload

`length` is the sum of the ledger's payload bytes up to and including this entry. The digest covers the 32 header bytes
and the payload. A bookie looks only at the two ids and at lastAddConfirmed. See docs/WIRE_FORMATS.md, "Stored entries
and their digest"; source: DigestManager of BookKeeper 4.17.
"""

import zlib
from collections.abc import Sequence
from enum import IntEnum
from hashlib import sha1
from struct import Struct

from pulsar_proto.checksum import crc32c_extend, crc32c_of

HEADER_SIZE = 32

_HEADER = Struct(">qqqq")
_IDS = Struct(">qq")
_I64 = Struct(">q")
_U32 = Struct(">I")
_U64 = Struct(">Q")
_IDS_SIZE = _IDS.size
_LAC_AT = 16
_LENGTH_AT = 24


class DigestType(IntEnum):
    """Numbers of LedgerMetadataFormat.DigestType. Java's API calls HMAC `MAC`."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


_DIGEST_SIZE = {DigestType.CRC32: 8, DigestType.HMAC: 20, DigestType.CRC32C: 4, DigestType.DUMMY: 0}


class DigestError(Exception):
    """An entry differs from the entry that was written: it has other ids, is cut off, or its digest does not match.

    Another bookie's copy may be sound.
    """

    def __init__(self, ledger_id: int, entry_id: int, reason: str) -> None:
        super().__init__(f"ledger {ledger_id} entry {entry_id}: {reason}")
        self.ledger_id = ledger_id
        self.entry_id = entry_id


def master_key(password: bytes) -> bytes:
    """Returns the 20 bytes that adds and fencing reads show to a bookie. The bytes are the same for every digest
    type."""
    return sha1(b"ledger" + password).digest()


def entry_ids(entry: bytes) -> tuple[int, int]:
    """Returns (ledger id, entry id) of a stored entry. Raises struct.error for an entry of less than 16 bytes."""
    ledger_id, entry_id = _IDS.unpack_from(entry)
    return ledger_id, entry_id


def entry_lac(entry: bytes) -> int:
    """Returns the writer's last add confirmed at the time when it packed the entry; -1 when there was none yet."""
    (lac,) = _I64.unpack_from(entry, _LAC_AT)
    return int(lac)


def entry_length(entry: bytes) -> int:
    """Returns the number of payload bytes in the ledger up to and including this entry."""
    (length,) = _I64.unpack_from(entry, _LENGTH_AT)
    return int(length)


class EntryCodec:
    """Packs and checks the entries of one ledger."""

    __slots__ = ("_digest_type", "_mac_key", "ledger_id", "payload_offset")

    def __init__(self, ledger_id: int, digest_type: DigestType, password: bytes = b"") -> None:
        self.ledger_id = ledger_id
        self.payload_offset = HEADER_SIZE + _DIGEST_SIZE[digest_type]
        self._digest_type = digest_type
        self._mac_key = sha1(b"mac" + password).digest() if digest_type is DigestType.HMAC else b""

    def pack_run(self, first_entry_id: int, lac: int, length_before: int, payloads: Sequence[bytes]) -> list[bytes]:
        """Returns stored entries with consecutive ids and the same `lac`. `length_before` is the length of the ledger
        before these entries."""
        pack_header = _HEADER.pack
        ledger_id = self.ledger_id
        entry_id = first_entry_id
        length = length_before
        entries: list[bytes] = []
        if self._digest_type is DigestType.CRC32C:
            pack_digest = _U32.pack
            for payload in payloads:
                length += len(payload)
                header = pack_header(ledger_id, entry_id, lac, length)
                digest = pack_digest(crc32c_extend(crc32c_of(header), payload))
                entries.append(b"".join((header, digest, payload)))
                entry_id += 1
            return entries
        for payload in payloads:
            length += len(payload)
            header = pack_header(ledger_id, entry_id, lac, length)
            entries.append(b"".join((header, self._digest(header, payload), payload)))
            entry_id += 1
        return entries

    def verify(self, entry: bytes, entry_id: int) -> None:
        """Checks one stored entry. Raises DigestError unless it is this ledger's entry `entry_id`, whole and
        unchanged."""
        self.verify_run(entry_id, (entry,))

    def verify_run(self, first_entry_id: int, entries: Sequence[bytes]) -> None:
        """Checks consecutive stored entries. Raises DigestError unless all of them are this ledger's, whole and
        unchanged, with consecutive ids from `first_entry_id` on. The error names the first bad entry."""
        ledger_id = self.ledger_id
        offset = self.payload_offset
        entry_id = first_entry_id
        is_crc32c = self._digest_type is DigestType.CRC32C
        unpack_ids = _IDS.unpack_from
        for entry in entries:
            if len(entry) < offset:
                raise DigestError(ledger_id, entry_id, f"only {len(entry)} bytes are left of the entry")
            if unpack_ids(entry) != (ledger_id, entry_id):
                raise DigestError(ledger_id, entry_id, "found {} entry {}".format(*unpack_ids(entry)))
            header = entry[:HEADER_SIZE]
            if is_crc32c:
                digest = _U32.pack(crc32c_extend(crc32c_of(header), entry[offset:]))
            else:
                digest = self._digest(header, entry[offset:])
            if digest != entry[HEADER_SIZE:offset]:
                raise DigestError(ledger_id, entry_id, "the digest does not match")
            entry_id += 1

    def pack_lac(self, lac: int) -> bytes:
        """Returns the body of a WRITE_LAC: i64 ledgerId | i64 lac | digest over both."""
        ids = _IDS.pack(self.ledger_id, lac)
        return ids + self._digest(ids, b"")

    def verify_lac(self, packet: bytes) -> int:
        """Returns the LAC in a packet that `pack_lac` made. Raises DigestError for a damaged packet or another
        ledger's."""
        ids = packet[:_IDS_SIZE]
        if len(ids) < _IDS_SIZE or self._digest(ids, b"") != packet[_IDS_SIZE:]:
            raise DigestError(self.ledger_id, -1, "the digest of a LAC packet does not match")
        ledger_id, lac = _IDS.unpack(ids)
        if ledger_id != self.ledger_id:
            raise DigestError(self.ledger_id, -1, f"LAC packet of ledger {ledger_id}")
        return int(lac)

    def _digest(self, header: bytes, payload: bytes) -> bytes:
        digest_type = self._digest_type
        if digest_type is DigestType.CRC32C:
            return _U32.pack(crc32c_extend(crc32c_of(header), payload))
        if digest_type is DigestType.CRC32:
            return _U64.pack(zlib.crc32(payload, zlib.crc32(header)))
        if digest_type is DigestType.HMAC:
            # hmac is imported here because no ledger of Pulsar's own uses it: the start should not pay for the import.
            import hmac

            return hmac.digest(self._mac_key, header + payload, "sha1")
        return b""
