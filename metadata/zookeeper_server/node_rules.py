"""The bytes that represent a record in memory and on disk. No I/O.

    68 bytes   the Stat as clients get it (zookeeper.jute): czxid, mzxid, ctime, mtime, version, cversion, aversion,
               ephemeralOwner, dataLength, numChildren, pzxid
     4 bytes   bit 31: a container, bit 30: the data is null and not empty, bits 0 to 23: the number of its ACL
     …         the data

One bytes object for each record takes a fifth of the memory of an object with a field for each number, and the answer
to a read is made of slices of the bytes. The cversion that clients see is twice the number of creations minus the
number of children (DataNode.copyStat); each creation and each deletion of a child raises it by one. So the number of
creations, which numbers sequential records, can be computed from the cversion.
"""

import struct

_HEAD = struct.Struct(">qqqqiiiqiiqI")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_CHILDREN = struct.Struct(">iq")

STAT_BYTES = 68
HEAD_BYTES = _HEAD.size
_MZXID, _MTIME, _VERSION, _CVERSION, _AVERSION, _OWNER, _LENGTH, _NUM_CHILDREN, _PZXID, _FLAGS = (
    8,
    24,
    32,
    36,
    40,
    44,
    52,
    56,
    60,
    68,
)
_CONTAINER = 1 << 31
_NULL = 1 << 30
_ACL_IDS = (1 << 24) - 1
ACL_IDS_MAX = _ACL_IDS
OPEN_ACL = 0
"""The number of the ACL that allows everything to everybody."""


def new_node(
    data: bytes | None, *, zxid: int, now_ms: int, owner: int = 0, acl_id: int = OPEN_ACL, container: bool = False
) -> bytes:
    """Returns a record without children. `owner` is the session of an ephemeral record."""
    flags = acl_id | (_CONTAINER if container else 0)
    if data is None:
        return _HEAD.pack(zxid, zxid, now_ms, now_ms, 0, 0, 0, owner, 0, 0, zxid, flags | _NULL)
    return _HEAD.pack(zxid, zxid, now_ms, now_ms, 0, 0, 0, owner, len(data), 0, zxid, flags) + data


def first_node(children: int, acl_id: int = OPEN_ACL, aversion: int = 0) -> bytes:
    """Returns one of the records that every new server has. Java makes these records without a zxid, and does not count
    their children as creations, so that the cversion is negative (DataTree's constructor)."""
    return _HEAD.pack(0, 0, 0, 0, 0, -children, aversion, 0, 0, children, 0, acl_id)


def stat_of(node: bytes) -> bytes:
    return node[:STAT_BYTES]


def data_field(node: bytes) -> bytes:
    """Returns the data as a buffer in Jute."""
    if node[_FLAGS] & (_NULL >> 24):
        return b"\xff\xff\xff\xff"
    return node[_LENGTH : _LENGTH + 4] + node[HEAD_BYTES:]


def version_of(node: bytes) -> int:
    return int(_INT.unpack_from(node, _VERSION)[0])


def acl_version_of(node: bytes) -> int:
    return int(_INT.unpack_from(node, _AVERSION)[0])


def owner_of(node: bytes) -> int:
    """Returns the session that an ephemeral record belongs to, 0 for any other record."""
    return int(_LONG.unpack_from(node, _OWNER)[0])


def mzxid_of(node: bytes) -> int:
    return int(_LONG.unpack_from(node, _MZXID)[0])


def pzxid_of(node: bytes) -> int:
    return int(_LONG.unpack_from(node, _PZXID)[0])


def child_count_of(node: bytes) -> int:
    return int(_INT.unpack_from(node, _NUM_CHILDREN)[0])


def creations_of(node: bytes) -> int:
    """Returns how many children were ever created, which is the number of the next sequential child."""
    return int(_INT.unpack_from(node, _CVERSION)[0] + _INT.unpack_from(node, _NUM_CHILDREN)[0]) // 2


def acl_id_of(node: bytes) -> int:
    return int.from_bytes(node[_FLAGS + 1 : HEAD_BYTES], "big")


def is_container(node: bytes) -> bool:
    return node[_FLAGS] & 0x80 != 0


def with_children_changed(node: bytes, difference: int, zxid: int) -> bytes:
    """Returns the record after a child was created (1) or deleted (-1)."""
    changed = bytearray(node)
    _INT.pack_into(changed, _CVERSION, _wrapped(_INT.unpack_from(node, _CVERSION)[0] + 1))
    _CHILDREN.pack_into(changed, _NUM_CHILDREN, child_count_of(node) + difference, zxid)
    return bytes(changed)


def with_data(node: bytes, data: bytes | None, *, zxid: int, now_ms: int) -> bytes:
    """Returns the record after its data was set."""
    head = bytearray(node[:HEAD_BYTES])
    _LONG.pack_into(head, _MZXID, zxid)
    _LONG.pack_into(head, _MTIME, now_ms)
    _INT.pack_into(head, _VERSION, _wrapped(version_of(node) + 1))
    _INT.pack_into(head, _LENGTH, 0 if data is None else len(data))
    head[_FLAGS] = head[_FLAGS] & 0x80 | (0x40 if data is None else 0)
    return bytes(head) + (data or b"")


def with_acl(node: bytes, acl_id: int) -> bytes:
    """Returns the record after its ACL was set."""
    changed = bytearray(node)
    _INT.pack_into(changed, _AVERSION, _wrapped(acl_version_of(node) + 1))
    changed[_FLAGS + 1 : HEAD_BYTES] = acl_id.to_bytes(3, "big")
    return bytes(changed)


def _wrapped(number: int) -> int:
    """Returns the number wrapped to 32 bits, which is what an overflow of Java's int does."""
    return (number + 2**31) % 2**32 - 2**31
