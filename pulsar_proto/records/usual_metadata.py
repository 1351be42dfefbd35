"""Reads by hand what a broker wants to know of nearly every message's metadata: that the entry is one plain message,
and the key by which Key_Shared subscriptions choose a consumer.

An encoded MessageMetadata is its fields one after another, each with a tag in front, which tells the field and how to
find the end of its value:

    0a 04 "name"    10 e9 07      18 …            32 01 "k"         98 01 …
    producer_name   sequence_id   publish_time    partition_key     deliver_at_time: a tag of two bytes

A walk from tag to tag makes no object, while protobuf makes one of the message and one more for each field that is
asked for: compiled, the walk takes a ninth of the time. It knows one-byte and two-byte tags as all encoders write them,
numbers of up to 63 bits, and strings, bytes and messages, into which it does not look. Any other metadata is not usual:
a parser has to tell.
"""

from typing import Final

from pulsar_proto.varint import SHORT_VARINT_BYTES, short_varint_at

_METADATA_AT: Final = 10
"""Where the metadata begins: behind u16 0x0e01 | u32 crc32c | u32 size."""
_NUMBER: Final = 0
_BYTES: Final = 2
"""The wire types, which are the low three bits of a tag: numbers are varints, everything else has its length first."""

_PRODUCER_NAME: Final = 0x0A
_SEQUENCE_ID: Final = 0x10
_PARTITION_KEY: Final = 0x32
_NUM_MESSAGES: Final = 0x58

_SECOND_BYTE: Final = 1
"""The second byte of all tags of two bytes here: those of the fields 16 to 31. Their first bytes:"""
_KEY_IS_BASE64: Final = 0x88
_ORDERING_KEY: Final = 0x92
_DELIVER_AT: Final = 0x98
_MARKER: Final = 0xA0
_TXNID_LEAST: Final = 0xB0
_TXNID_MOST: Final = 0xB8
_CHUNKS: Final = 0xD8


def is_single_and_plain(payload: bytes) -> bool:
    """Returns whether the payload is certainly a single message that is not `payload.Special`: its metadata has none of
    the fields that make an entry more than that. False means that only a parser can tell."""
    stop = _metadata_end(payload)
    at = _METADATA_AT
    try:
        while at < stop:
            tag = payload[at]
            at += 1
            if tag == _NUM_MESSAGES:
                return False
            if tag >= 128:
                if payload[at] != _SECOND_BYTE or tag in (_DELIVER_AT, _MARKER, _TXNID_LEAST, _TXNID_MOST, _CHUNKS):
                    return False
                at += 1
            wire_type = tag & 7
            if wire_type == _NUMBER:
                last = at + SHORT_VARINT_BYTES
                while payload[at] >= 128:
                    at += 1
                    if at == last:
                        return False
                at += 1
            elif wire_type == _BYTES:
                size = payload[at]
                at += 1
                if size >= 128:
                    size, at = short_varint_at(payload, at - 1, stop)
                    if size < 0:
                        return False
                at += size
            else:
                return False
    except IndexError:  # the last value is cut off
        return False
    return at == stop


def usual_sticky_key_of(payload: bytes) -> bytes | None:
    """Returns what `payload.sticky_key_of` returns, or None when only a parser can tell: for keys in base 64, ordering
    keys, and metadata without a key and a producer. The walk is that of `is_single_and_plain`: one function for both
    would double its time."""
    stop = _metadata_end(payload)
    at = _METADATA_AT
    key_at = key_end = name_at = name_end = sequence_id_at = -1
    try:
        while at < stop:
            tag = payload[at]
            at += 1
            if tag >= 128:
                if payload[at] != _SECOND_BYTE or tag in (_KEY_IS_BASE64, _ORDERING_KEY):
                    return None
                at += 1
            elif tag < 8:
                return None  # there is no field 0
            wire_type = tag & 7
            if wire_type == _NUMBER:
                if tag == _SEQUENCE_ID:
                    sequence_id_at = at
                last = at + SHORT_VARINT_BYTES
                while payload[at] >= 128:
                    at += 1
                    if at == last:
                        return None
                at += 1
            elif wire_type == _BYTES:
                size = payload[at]
                at += 1
                if size >= 128:
                    size, at = short_varint_at(payload, at - 1, stop)
                    if size < 0:
                        return None
                if tag == _PARTITION_KEY:
                    key_at, key_end = at, at + size
                elif tag == _PRODUCER_NAME:
                    name_at, name_end = at, at + size
                at += size
            else:
                return None
    except IndexError:  # the last value is cut off
        return None
    if at != stop:
        return None
    if key_at >= 0:
        return payload[key_at:key_end]
    if name_at >= 0 and sequence_id_at >= 0:
        return b"%b-%d" % (payload[name_at:name_end], short_varint_at(payload, sequence_id_at, stop)[0])
    return None


def _metadata_end(payload: bytes) -> int:
    """Returns where the metadata of a payload ends that begins with a checksum, as those of all clients do, and -1 for
    any other payload."""
    size = len(payload)
    if size < _METADATA_AT or payload[0] != 0x0E or payload[1] != 0x01:
        return -1
    end = _METADATA_AT + (payload[6] << 24 | payload[7] << 16 | payload[8] << 8 | payload[9])
    return end if end <= size else -1
