"""Decides the outcome of a write whose answer was lost, from records that are read afterwards; without I/O.

The caller reads the records after a `sync` on a later link of the session. By then either the write has happened or it
never will, because a server refuses requests that still arrive on an older link of the session (SessionMovedException).

Was the record changed since? The zxids of the record show whether it was changed after the last answer that came on the
lost link (`bound`). Every write whose answer was lost is later than `bound`.

Was it changed by us? An ephemeral record names its owner. For other records, version and value tell: a create or a put
that must not be mistaken for another client's has a value that nobody else writes, such as a ledger record of
BookKeeper with its cToken. When neither the version nor the value decides, the verdict is UNKNOWN.

In two cases the verdict may be wrong: a record that this client made and that another client deleted before the check
counts as never made, and a record that is gone counts as deleted by this client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from magnetar.metadata.store import CheckOp, CreateOp, DeleteOp, Op, PutOp
from magnetar.metadata.tree_rules import name_of, parent_of
from magnetar.metadata.zookeeper.jute_codec import SEQUENCE_DIGITS, ZkStat


@dataclass(frozen=True, slots=True)
class Write:
    """One request that makes all of `ops` or none. `sequential` says that the last op is a sequential create."""

    ops: tuple[Op, ...]
    sequential: bool = False


class WriteVerdict(Enum):
    """The outcome of a write."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    """The write failed, or the request was lost and never takes effect. The write may be sent again."""
    UNKNOWN = "unknown"


class FoundRecord(NamedTuple):
    """A record at the time of the read after the answer was lost."""

    value: bytes
    stat: ZkStat


def telling_op(write: Write) -> Op | None:
    """Returns the op of the write whose record tells most about the outcome; None when there are only checks.

    Only the last op of each path leaves a trace. A create of an ephemeral record is preferred, then an op with a value.
    """
    if write.sequential:
        return write.ops[-1]
    last = {op.path: op for op in write.ops if not isinstance(op, CheckOp)}
    best: Op | None = None
    for op in last.values():
        if best is None or _tells(op) > _tells(best):
            best = op
    return best


def _tells(op: Op) -> int:
    match op:
        case CreateOp(ephemeral=True):
            return 4
        case CreateOp(value=value) | PutOp(value=value) if value:
            return 3
        case CreateOp() | PutOp():
            return 2
    return 1


def judge(op: Op | None, found: FoundRecord | None, parent: ZkStat | None, bound: int, owner: int) -> WriteVerdict:
    """Judges a write by one of its ops.

    `found` is the record at the op's path and `parent` the Stat of its parent, None when there is no such record.
    `owner` is the id of the session that sent the op.
    """
    match op:
        case CreateOp(_, value, ephemeral):
            return _judge_create(value, ephemeral, found, bound, owner)
        case PutOp(_, value, expected):
            return _judge_put(value, expected, found, bound)
        case DeleteOp():
            return _judge_delete(found, parent, bound)
    return WriteVerdict.NOT_APPLIED


def _judge_create(value: bytes, ephemeral: bool, found: FoundRecord | None, bound: int, owner: int) -> WriteVerdict:
    if found is None or found.stat.czxid <= bound:
        return WriteVerdict.NOT_APPLIED
    stat = found.stat
    if stat.ephemeral_owner != (owner if ephemeral else 0):
        return WriteVerdict.NOT_APPLIED
    if stat.version > 0:
        return WriteVerdict.UNKNOWN
    return WriteVerdict.APPLIED if found.value == value else WriteVerdict.NOT_APPLIED


def _judge_put(value: bytes, expected: int | None, found: FoundRecord | None, bound: int) -> WriteVerdict:
    if found is None or found.stat.mzxid <= bound:
        return WriteVerdict.NOT_APPLIED
    same = found.value == value
    if expected is None:
        return WriteVerdict.APPLIED if same else WriteVerdict.UNKNOWN
    if found.stat.version > expected + 1:
        return WriteVerdict.UNKNOWN
    return WriteVerdict.APPLIED if same and found.stat.version == expected + 1 else WriteVerdict.NOT_APPLIED


def _judge_delete(found: FoundRecord | None, parent: ZkStat | None, bound: int) -> WriteVerdict:
    if found is not None:
        return WriteVerdict.NOT_APPLIED if found.stat.czxid <= bound else WriteVerdict.UNKNOWN
    if parent is not None and parent.pzxid <= bound:
        return WriteVerdict.NOT_APPLIED  # the parent lost no child, so nothing was deleted
    return WriteVerdict.APPLIED


def numbered_names(op: CreateOp, children: Sequence[str]) -> list[str]:
    """Returns the names of the children that a sequential create of `op.path` can have made, the youngest first.

    The numbers below one parent only grow (PrepRequestProcessor).
    """
    prefix = name_of(op.path)
    numbered = [
        name
        for name in children
        if name.startswith(prefix) and len(name) == len(prefix) + SEQUENCE_DIGITS and name[len(prefix) :].isdecimal()
    ]
    return sorted(numbered, key=lambda name: name[len(prefix) :], reverse=True)


def judge_numbered(op: CreateOp, candidates: Sequence[tuple[str, FoundRecord]], owner: int) -> tuple[WriteVerdict, str]:
    """Judges a sequential create; returns the verdict and the path of the record that it made.

    `candidates` are the records younger than the bound that no other request of ours has made, the youngest first. A
    persistent record without a value could be anybody's, so the verdict is then UNKNOWN.
    """
    for path, found in reversed(candidates):
        if op.ephemeral:
            if found.stat.ephemeral_owner == owner and found.value == op.value:
                return WriteVerdict.APPLIED, path
        elif found.stat.ephemeral_owner == 0 and found.stat.version == 0 and found.value == op.value:
            return (WriteVerdict.APPLIED, path) if op.value else (WriteVerdict.UNKNOWN, "")
    return WriteVerdict.NOT_APPLIED, ""


def stats_after(write: Write, found: dict[str, ZkStat]) -> list[ZkStat | None]:
    """Returns the Stats that the lost answer had, one for each op, computed from the Stats that the records have
    now."""
    later_puts: dict[str, int] = {}
    stats: list[ZkStat | None] = []
    for op in reversed(write.ops):
        stat = found.get(op.path)
        if stat is not None and isinstance(op, PutOp):
            later = later_puts.get(op.path, 0)
            later_puts[op.path] = later + 1
            version = stat.version - later if op.expected_version is None else op.expected_version + 1
            stats.append(stat._replace(version=version))
        elif stat is not None and isinstance(op, CreateOp):
            stats.append(stat._replace(version=0, mtime=stat.ctime))
        else:
            stats.append(None)
    return stats[::-1]


def parent_path(op: Op) -> str:
    return parent_of(op.path)
