"""The numbers of ZooKeeper's protocol: requests, errors, events, permissions.

Source: zookeeper.jute, ZooDefs.OpCode, ZooDefs.Perms, KeeperException.Code and Watcher.Event of ZooKeeper 3.9.
"""

from enum import IntEnum, IntFlag

from magnetar.metadata.zookeeper_codes import ErrorCode


class OpCode(IntEnum):
    """The codes of ZooDefs.OpCode that clients send."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11
    ERROR = -1


class NodeEvent(IntEnum):
    """Watcher.Event.EventType."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class Perms(IntFlag):
    """ZooDefs.Perms."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


NOTIFICATION_XID = -1
PING_XID = -2
AUTH_XID = -4

SYNC_CONNECTED = 3
"""The session state in all events that the server sends (Watcher.Event.KeeperState)."""

ANY_VERSION = -1
PASSWORD_BYTES = 16


class RequestError(Exception):
    """A request is refused. The answer to its sender has this code."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class MalformedRequestError(Exception):
    """The bytes of a request do not have the fields of the request's type."""
