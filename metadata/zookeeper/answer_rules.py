"""Translates ZooKeeper's answers into results and errors of the contract `magnetar.metadata.store`, without I/O."""

import logging
from typing import Any, NamedTuple

from magnetar.metadata.errors import (
    EphemeralParentError,
    MetadataError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    StoreOverloadedError,
    StoreWriteError,
)
from magnetar.metadata.store import CreateOp, Stat
from magnetar.metadata.zookeeper.jute_codec import ZkStat
from magnetar.metadata.zookeeper.lost_answer_rules import Write
from magnetar.metadata.zookeeper_codes import ErrorCode

log = logging.getLogger(__name__)


class Rejection(NamedTuple):
    """The refusal of a request: ZooKeeper's error code, and the path that the caller named."""

    code: int
    path: str


def store_stat(stat: ZkStat) -> Stat:
    owner = stat.ephemeral_owner
    return Stat(stat.version, stat.ctime, stat.mtime, owner != 0, stat.num_children, owner)


def error_of(rejection: Rejection) -> MetadataError:
    """Returns the error that the store raises for a refused request.

    For a wrong version the caller makes the BadVersionError itself, because this error also needs the version that the
    record has.
    """
    code, path = rejection
    match code:
        case ErrorCode.NO_NODE:
            return NoNodeError(path)
        case ErrorCode.NODE_EXISTS:
            return NodeExistsError(path)
        case ErrorCode.NOT_EMPTY:
            return NotEmptyError(path)
        case ErrorCode.NO_CHILDREN_FOR_EPHEMERALS:
            return EphemeralParentError(path)
        case ErrorCode.THROTTLED:
            return StoreOverloadedError(path, "ZooKeeper has too much to do")
        case ErrorCode.QUOTA_EXCEEDED:
            return StoreWriteError(path, "over its ZooKeeper quota")
        case ErrorCode.NO_AUTH:
            return StoreWriteError(path, "its ACL does not allow that")
    return MetadataError(path, f"ZooKeeper answers with error {code}")


def multi_outcome(
    write: Write, zxid: int, results: list[Any], seen: ZkStat | None, session_id: int
) -> tuple[str, list[ZkStat | None]]:
    """Returns the path of the last op's record, and one Stat for each op. `session_id` is the session that sent the
    multi.

    ZooKeeper's answer has no Stats for the creates of a multi, so this function computes them. All changes of a multi
    have the same zxid and the same time. `seen` is the Stat of the first created record, read right behind the multi;
    its time is used if the record is still the one that the multi made. Otherwise the time comes from the Stat of a put
    of the multi.
    """
    time_ms = next((result.mtime for result in results if isinstance(result, ZkStat)), None)
    if seen is not None and seen.czxid == zxid:
        time_ms = seen.ctime
    if time_ms is None:
        time_ms = 0 if seen is None else seen.mtime
    stats: list[ZkStat | None] = []
    for op, result in zip(write.ops, results, strict=True):
        if isinstance(op, CreateOp):
            owner = session_id if op.ephemeral else 0
            stats.append(ZkStat(zxid, zxid, time_ms, time_ms, 0, 0, 0, owner, len(op.value), 0, zxid))
        else:
            stats.append(result if isinstance(result, ZkStat) else None)
    last = results[-1]
    return (last if isinstance(last, str) else write.ops[-1].path), stats
