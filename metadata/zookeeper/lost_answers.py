"""Finds out, after the connection to a server (the link) was lost, the outcomes of the writes whose answers were lost.

The requests of one session happen in the order in which they were sent. So the first of the sent writes have happened,
up to some point, and the rest have not. All writes are judged from one state of the records, which is read after a
`sync`. After that the writes that did not happen are sent again, in the old order.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from magnetar.metadata.store import CreateOp, DeleteOp, Op, PutOp
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.jute_codec import ZkStat
from magnetar.metadata.zookeeper.lost_answer_rules import (
    FoundRecord,
    Write,
    WriteVerdict,
    judge,
    judge_numbered,
    numbered_names,
    parent_path,
    stats_after,
    telling_op,
)
from magnetar.metadata.zookeeper.pending_request import LinkLostError, PendingRequest, Reply, Settled, read_children
from magnetar.metadata.zookeeper_codes import ErrorCode

log = logging.getLogger(__name__)

Probe = Callable[[bytes], Awaitable[Reply]]
"""Sends a read on the new link and returns the reply. Raises LinkLostError when this link is lost, too."""

READS_AT_ONCE = 64
CANDIDATES_MAX = 10_000
"""How many new sequential records below one parent are examined. When there are more, the outcome stays unknown."""

Finding = Settled | WriteVerdict


class LostAnswerRecovery:
    """Judges the lost requests of one link.

    Two sequential creates must not be credited with the same record, so sequential creates are judged one after the
    other.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._bound = 0
        """The lowest bound of all requests."""
        self._young: dict[str, list[tuple[str, FoundRecord]]] = {}
        """The records that lost sequential creates can have made, by the requested path. A record that is attributed to
        one of our requests is removed from the list."""

    async def findings(self, calls: Sequence[PendingRequest]) -> list[Finding]:
        """Returns one finding for each request. The finding for a read is NOT_APPLIED. Raises LinkLostError when the
        new link is lost."""
        await self._probe(zk_codec.sync_body("/"))
        self._bound = min((call.bound for call in calls), default=0)
        found: list[Finding] = []
        for start in range(0, len(calls), READS_AT_ONCE):
            some = calls[start : start + READS_AT_ONCE]
            plain = iter(await asyncio.gather(*(self._plain(call) for call in some)))
            for call in some:
                finding = next(plain)
                if call.write is not None and call.write.sequential:
                    finding = await self._numbered(call, call.write)
                found.append(finding)
        return consistent(calls, found)

    async def _plain(self, call: PendingRequest) -> Finding:
        write = call.write
        if write is None or write.sequential or call.future.done():
            return WriteVerdict.NOT_APPLIED
        op = telling_op(write)
        if op is None:
            return WriteVerdict.NOT_APPLIED
        record, parent = await asyncio.gather(self._get(op.path), self._stat(parent_path(op)))
        verdict = judge(op, record, parent, call.bound, call.owner)
        if verdict is not WriteVerdict.APPLIED:
            return verdict
        if isinstance(op, DeleteOp) and len(write.ops) > 1:
            return WriteVerdict.UNKNOWN  # an error for one record says nothing about the other records
        paths = list({one.path for one in write.ops})
        stats = await asyncio.gather(*(self._stat(path) for path in paths))
        known = {path: stat for path, stat in zip(paths, stats, strict=True) if stat is not None}
        if record is not None:
            known[op.path] = record.stat
        return Settled(write.ops[-1].path, stats_after(write, known))

    async def _numbered(self, call: PendingRequest, write: Write) -> Finding:
        op = write.ops[-1]
        assert isinstance(op, CreateOp)
        if call.future.done():
            return WriteVerdict.NOT_APPLIED
        young = self._young.get(op.path)
        if young is None:
            young = self._young[op.path] = await self._read_young(op)
        if len(young) > CANDIDATES_MAX:
            return WriteVerdict.UNKNOWN
        candidates = [one for one in young if one[1].stat.czxid > call.bound]
        verdict, path = judge_numbered(op, candidates, call.owner)
        if verdict is not WriteVerdict.APPLIED:
            return verdict
        position = next(position for position, one in enumerate(young) if one[0] == path)
        _, record = young.pop(position)  # so that the record is attributed to no other request of ours
        stats: list[ZkStat | None] = [None] * (len(write.ops) - 1)
        return Settled(path, [*stats, record.stat])

    async def _read_young(self, op: CreateOp) -> list[tuple[str, FoundRecord]]:
        """Reads the records that lost sequential creates of `op.path` can have made, the youngest first.

        The records are read once for all creates of that path.
        """
        parent = parent_path(op)
        listed = await self._probe(zk_codec.children_body(parent))
        young: list[tuple[str, FoundRecord]] = []
        if listed.error:
            return young
        names = numbered_names(op, await read_children(listed.payload))
        for start in range(0, len(names), READS_AT_ONCE):
            paths = [f"{parent.rstrip('/')}/{name}" for name in names[start : start + READS_AT_ONCE]]
            records = await asyncio.gather(*(self._get(path) for path in paths))
            found = [(path, record) for path, record in zip(paths, records, strict=True) if record is not None]
            young += [one for one in found if one[1].stat.czxid > self._bound]
            if len(young) > CANDIDATES_MAX or any(one[1].stat.czxid <= self._bound for one in found):
                break
        return young

    async def _get(self, path: str) -> FoundRecord | None:
        reply = await self._probe(zk_codec.get_body(path))
        if reply.error == ErrorCode.NO_NODE:
            return None
        if reply.error:
            raise LinkLostError(f"reading {path} failed with {reply.error}")
        return FoundRecord(*zk_codec.parse_data(reply.payload))

    async def _stat(self, path: str) -> ZkStat | None:
        reply = await self._probe(zk_codec.exists_body(path))
        return None if reply.error else zk_codec.parse_stat(reply.payload)


def consistent(calls: Sequence[PendingRequest], found: Sequence[Finding]) -> list[Finding]:
    """Returns the findings, corrected where they contradict each other. Contradictions are possible because each
    request was judged alone."""
    return _never_reordered(calls, _one_winner(calls, found))


def _one_winner(calls: Sequence[PendingRequest], found: Sequence[Finding]) -> list[Finding]:
    """When the record has the state that several equal writes wanted, counts only the first of these writes as applied.

    The later writes failed. They count as not applied and are sent again, so that the server refuses them. Puts that
    accept any version never fail, so all of them count as applied.
    """
    winners: dict[str, Op | None] = {}
    result: list[Finding] = []
    for call, finding in zip(calls, found, strict=True):
        op = None if call.write is None or call.write.sequential else telling_op(call.write)
        if not isinstance(finding, Settled):
            winners.update(dict.fromkeys(_paths(call) & winners.keys()))
        elif op is not None and op.path not in winners:
            winners[op.path] = op
        elif op is not None and op != winners[op.path]:
            finding = WriteVerdict.UNKNOWN
        elif op is not None and not (isinstance(op, PutOp) and op.expected_version is None):
            finding = WriteVerdict.NOT_APPLIED
        result.append(finding)
    return result


def _never_reordered(calls: Sequence[PendingRequest], found: Sequence[Finding]) -> list[Finding]:
    """Replaces NOT_APPLIED by UNKNOWN for a write when a later write of the same records happened or may have happened,
    so that the earlier one is not sent again behind it.

    The server handled the writes in order, so it has done or refused the earlier write.
    """
    touched: set[str] = set()
    result: list[Finding] = []
    for call, finding in zip(reversed(calls), reversed(found), strict=True):
        paths = _paths(call)
        if finding is WriteVerdict.NOT_APPLIED and paths & touched:
            finding = WriteVerdict.UNKNOWN
        if finding is not WriteVerdict.NOT_APPLIED:
            touched |= paths
        result.append(finding)
    return result[::-1]


def _paths(call: PendingRequest) -> set[str]:
    ops: Sequence[Op] = () if call.write is None or call.write.sequential else call.write.ops
    return {op.path for op in ops}
