"""The rows that the server keeps on disk: records, sessions, access control lists and the number of the last
transaction.

The module does no I/O. A row of the table `record` is a key, bytes and a checksum. Keys of records are their paths,
which begin with "/"; the other keys begin with "+", so that they are read first:

    +acl/NNNNNNNN      an access control list, as in Jute
    +session/HEX       i32 timeout in milliseconds, 16 bytes password
    +zxid              i64 number of the last transaction
    /…                 a record, the bytes of `node_rules`

`crc` is the CRC-32 of the bytes and then of the key. All rows that one batch of transactions changes are written in one
commit.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from magnetar.metadata.embedded.file_format import FileFormat, RecordTotals, RowChange
from magnetar.metadata.errors import StoreDamagedError
from magnetar.metadata.zookeeper_server import answers
from magnetar.metadata.zookeeper_server.acl_rules import OPEN, READ_ONLY, Acl, AclTable
from magnetar.metadata.zookeeper_server.jute_reader import JuteReader
from magnetar.metadata.zookeeper_server.node_rules import HEAD_BYTES, OPEN_ACL, first_node
from magnetar.metadata.zookeeper_server.node_tree_rules import MissingParentError, NodeTree
from magnetar.metadata.zookeeper_server.protocol import PASSWORD_BYTES, MalformedRequestError
from magnetar.metadata.zookeeper_server.session_rules import Session

ZXID_KEY = b"+zxid"
_ACL_PREFIX = b"+acl/"
_SESSION_PREFIX = b"+session/"
_ZXID = struct.Struct(">q")
_SESSION = struct.Struct(f">i{PASSWORD_BYTES}s")
_READ_ONLY_ACL = 1


class StoredState(NamedTuple):
    """The whole content of a file."""

    tree: NodeTree
    acls: AclTable
    sessions: list[Session]
    zxid: int
    others: dict[bytes, bytes]
    """The rows for other things than records, by key."""


def acl_row(acl_id: int, acl: Acl) -> tuple[bytes, bytes]:
    return _ACL_PREFIX + b"%08d" % acl_id, answers.access_list(acl)


def session_key(session_id: int) -> bytes:
    return _SESSION_PREFIX + b"%016x" % session_id


def session_row(session: Session) -> tuple[bytes, bytes]:
    return session_key(session.session_id), _SESSION.pack(session.timeout_ms, session.password)


def zxid_row(zxid: int) -> tuple[bytes, bytes]:
    return ZXID_KEY, _ZXID.pack(zxid)


def crc_of(key: bytes, content: bytes) -> int:
    return zlib.crc32(key, zlib.crc32(content))


class StoredRows:
    """Knows the rows of the file, and plans the content of each commit."""

    def __init__(self, state: StoredState, totals: RecordTotals) -> None:
        self._tree = state.tree
        self._others = state.others
        self._totals = totals

    def plan(self, rows: Mapping[bytes, bytes]) -> RowChange:
        """Returns the commit that makes the file hold these rows; empty content deletes a row. During this call the
        tree still has the state before the commit."""
        upserts: list[tuple[Any, ...]] = []
        deletes: list[tuple[Any]] = []
        records, digest = self._totals
        for key, content in rows.items():
            old = self._tree.find(key) if key[:1] == b"/" else self._others.get(key)
            if old is not None:
                records -= 1
                digest -= crc_of(key, old)
            if content:
                crc = crc_of(key, content)
                records += 1
                digest += crc
                upserts.append((key, content, crc))
            elif old is not None:
                deletes.append((key,))
        return RowChange(upserts, deletes, RecordTotals(records, digest))

    def committed(self, rows: Mapping[bytes, bytes], change: RowChange) -> None:
        """Notes that a commit is durable."""
        self._totals = change.totals
        for key, content in rows.items():
            if key[:1] == b"/":
                continue
            if content:
                self._others[key] = content
            else:
                self._others.pop(key, None)


def load_state(path: str, rows: Iterable[tuple[Any, ...]]) -> tuple[StoredState, RecordTotals]:
    """Builds the state from all rows, which come by ascending key. Returns the state and the totals of the rows.

    `path` is the path of the file, for messages. Raises StoreDamagedError when a row is damaged or missing.
    """
    tree, acls, sessions = NodeTree(), AclTable(), list[Session]()
    others: dict[bytes, bytes] = {}
    records = digest = 0

    def checked() -> Iterator[tuple[bytes, bytes]]:
        nonlocal records, digest
        for key, content, crc in rows:
            if not isinstance(key, bytes) or not isinstance(content, bytes) or crc_of(key, content) != crc:
                raise StoreDamagedError(path, f"is damaged: record {_shown(key)} is not as it was written")
            records += 1
            digest += crc
            if key[:1] == b"/":
                if len(content) < HEAD_BYTES:
                    raise StoreDamagedError(path, f"is damaged: record {_shown(key)} is cut off")
                yield key, content
            else:
                others[key] = content

    try:
        tree.load(checked())
        for key, content in others.items():
            if key.startswith(_ACL_PREFIX):
                acls.restore(int(key[len(_ACL_PREFIX) :]), JuteReader(content).acl())
            elif key.startswith(_SESSION_PREFIX):
                session_id = int(key[len(_SESSION_PREFIX) :], 16)
                sessions.append(Session(session_id, *_SESSION.unpack(content)))
        (zxid,) = _ZXID.unpack(others[ZXID_KEY])
    except MissingParentError as error:
        raise StoreDamagedError(path, f"is damaged: the parent of {error} is lost") from error
    except (KeyError, ValueError, struct.error, MalformedRequestError) as error:
        raise StoreDamagedError(path, f"is damaged: {error!r}") from error
    return StoredState(tree, acls, sessions, zxid, others), RecordTotals(records, digest)


def _shown(key: object) -> str:
    return key.decode(errors="replace") if isinstance(key, bytes) else repr(key)


def _first_rows() -> list[tuple[Any, ...]]:
    """Returns the rows of a new server, which are the records that a new server of Java's has."""
    assert OPEN_ACL == 0
    rows = (
        acl_row(OPEN_ACL, OPEN),
        acl_row(_READ_ONLY_ACL, READ_ONLY),
        zxid_row(0),
        (b"/", first_node(1)),
        (b"/zookeeper", first_node(2)),
        (b"/zookeeper/config", first_node(0, _READ_ONLY_ACL, aversion=-1)),
        (b"/zookeeper/quota", first_node(0)),
    )
    return [(key, content, crc_of(key, content)) for key, content in rows]


ZOOKEEPER = FileFormat(
    application_id=0x4D475A4B,  # "MGZK"
    version=1,
    table="CREATE TABLE record (path BLOB PRIMARY KEY, node BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;",
    columns=3,
    first_rows=_first_rows(),
    load=load_state,
    holder="what was acknowledged",
    restore=" and its witness",
    acceptance="then the records of that generation count, and what was recorded after it is lost",
)
"""The format of the ZooKeeper server's file."""
