"""LostAnswerRecovery against a model of ZooKeeper that knows the truth.

Random writes are lost, of which the first ones happened, among other clients' writes. A write that is said to be done
was done; one that is sent again was not.
"""

import asyncio
import random
import struct

import pytest

from magnetar.metadata.store import CheckOp, CreateOp, DeleteOp, Op, PutOp
from magnetar.metadata.tree_rules import parent_of
from magnetar.metadata.zookeeper.jute_codec import ZkStat
from magnetar.metadata.zookeeper.lost_answer_rules import Write, WriteVerdict
from magnetar.metadata.zookeeper.lost_answers import Finding, LostAnswerRecovery
from magnetar.metadata.zookeeper.pending_request import PendingRequest, Reply, Settled
from magnetar.metadata.zookeeper_codes import ErrorCode

PATHS = ["/a", "/b", "/p", "/p/a", "/p/b"]
OURS, OTHERS = 7, 8
WORLDS = 1500


class RefusedError(Exception):
    """The op fails, as it would on a server."""


class Model:
    """Holds records with zxids as ZooKeeper's DataTree does; `probe` answers reads in bytes."""

    def __init__(self) -> None:
        self.zxid = 1
        self.records: dict[str, tuple[bytes, ZkStat]] = {"/": (b"", ZkStat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))}
        self.sequence: dict[str, int] = {}

    def run(self, write: Write, owner: int) -> list[str]:
        """Makes all ops or none; returns the paths of created records. Raises RefusedError."""
        before, numbers = dict(self.records), dict(self.sequence)
        self.zxid += 1
        made: list[str] = []
        try:
            for position, op in enumerate(write.ops):
                made += self._one(op, owner, write.sequential and position == len(write.ops) - 1)
        except RefusedError:
            self.records, self.sequence = before, numbers
            raise
        return made

    def _one(self, op: Op, owner: int, sequential: bool) -> list[str]:
        path = op.path
        if isinstance(op, CreateOp):
            parent = parent_of(path)
            if parent not in self.records or self.records[parent][1].ephemeral_owner:
                raise RefusedError
            if sequential:
                path = f"{path}{self.sequence.get(parent, 0):010d}"
            if path in self.records:
                raise RefusedError
            owned = owner if op.ephemeral else 0
            self.records[path] = op.value, ZkStat(self.zxid, self.zxid, 0, 0, 0, 0, 0, owned, 0, 0, self.zxid)
            self.sequence[parent] = self.sequence.get(parent, 0) + 1
            self._touch(parent)
            return [path]
        if path not in self.records:
            raise RefusedError
        stat = self.records[path][1]
        if op.expected_version not in (None, stat.version):
            raise RefusedError
        if isinstance(op, PutOp):
            self.records[path] = op.value, stat._replace(mzxid=self.zxid, version=stat.version + 1)
        elif isinstance(op, DeleteOp):
            if any(parent_of(other) == path for other in self.records if other != "/"):
                raise RefusedError
            del self.records[path]
            self._touch(parent_of(path))
        return []

    def _touch(self, parent: str) -> None:
        value, stat = self.records[parent]
        self.records[parent] = value, stat._replace(pzxid=self.zxid)

    async def probe(self, body: bytes) -> Reply:
        opcode, length = struct.unpack_from(">ii", body)
        path = body[8 : 8 + length].decode()
        if opcode == 9:
            return Reply(0, self.zxid, b"")
        if path not in self.records:
            return Reply(ErrorCode.NO_NODE, self.zxid, b"")
        value, stat = self.records[path]
        if opcode == 8:
            names = [other.rpartition("/")[2].encode() for other in self.records if other != "/"]
            names = [n for n in names if f"{path.rstrip('/')}/{n.decode()}" in self.records]
            payload = struct.pack(">i", len(names)) + b"".join(struct.pack(">i", len(n)) + n for n in names)
            return Reply(0, self.zxid, payload)
        packed = struct.pack(">qqqqiiiqiiq", *stat)
        return Reply(0, self.zxid, packed if opcode == 3 else struct.pack(">i", len(value)) + value + packed)


def random_write(rng: random.Random, model: Model, who: str, number: int) -> Write:
    """The value is one that nobody else writes, as the store asks of its callers."""
    if rng.random() < 0.2:
        path = rng.choice(["/n-", "/p/n-"])
        return Write((CreateOp(path, f"{who}{number}".encode(), rng.random() < 0.7),), sequential=True)
    count = 1 if rng.random() < 0.7 else rng.randint(2, 3)
    return Write(tuple(random_op(rng, model, f"{who}{number}.{part}".encode()) for part in range(count)))


def random_op(rng: random.Random, model: Model, value: bytes) -> Op:
    path = rng.choice(PATHS)
    record = model.records.get(path)
    version = None if rng.random() < 0.3 else (record[1].version if record else 0) + rng.choice([0, 0, 0, 1])
    kind = rng.random()
    if kind < 0.4:
        return CreateOp(path, value, rng.random() < 0.4 and path != "/p")
    if kind < 0.75:
        return PutOp(path, value, version)
    return DeleteOp(path, version) if kind < 0.95 else CheckOp(path, version or 0)


class World:
    """One run: which writes were lost, which of them happened, and what the recovery says of each."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.model = Model()
        self.calls: list[PendingRequest] = []
        self.happened: list[bool] = []
        self.made: list[list[str]] = []
        self.deleted_by_others: set[str] = set()

    def write_as_others(self, number: int) -> None:
        write = random_write(self.rng, self.model, "other", number)
        gone = {op.path for op in write.ops if isinstance(op, DeleteOp)}
        try:
            self.model.run(write, OTHERS)
        except RefusedError:
            return
        self.deleted_by_others |= gone

    async def play(self) -> list[Finding]:
        rng = self.rng
        for number in range(rng.randint(0, 12)):
            self.write_as_others(number)
        self.deleted_by_others.clear()
        bound = self.model.zxid
        lost = rng.randint(1, 6)
        executed = rng.randint(0, lost)
        for number in range(lost):
            write = random_write(rng, self.model, "ours", number)
            call = PendingRequest(b"", "/", asyncio.get_running_loop().create_future(), 0.0, write=write)
            call.bound, call.owner = bound, OURS
            self.calls.append(call)
            made: list[str] = []
            succeeded = number < executed
            if succeeded:
                try:
                    made = self.model.run(write, OURS)
                except RefusedError:
                    succeeded = False
            self.happened.append(succeeded)
            self.made.append(made)
            if rng.random() < 0.25:
                self.write_as_others(100 + number)
        return await LostAnswerRecovery(self.model.probe).findings(self.calls)

    def excused(self, write: Write) -> bool:
        """A record that others deleted tells nothing any more, nor do those that were changed together with it: a write
        of such ones counts as not done (so says the store's text)."""
        doubtful = set(self.deleted_by_others)
        for call in self.calls:
            assert call.write is not None
            paths = {op.path for op in call.write.ops}
            if paths & self.deleted_by_others:
                doubtful |= paths
        return any(op.path in doubtful for op in write.ops)

    def is_gone(self, write: Write) -> bool:
        """A lost delete of a record that is not there counts as done, whoever did it."""
        op = write.ops[0]
        return len(write.ops) == 1 and isinstance(op, DeleteOp) and op.path not in self.model.records


async def test_what_the_recovery_says_is_true() -> None:
    told = {"settled": 0, "again": 0, "unknown": 0}
    for seed in range(WORLDS):
        world = World(seed)
        findings = await world.play()
        for call, finding, happened, made in zip(world.calls, findings, world.happened, world.made, strict=True):
            write = call.write
            assert write is not None
            if isinstance(finding, Settled):
                told["settled"] += 1
                assert happened or world.is_gone(write), f"seed {seed}: {write} did not happen"
                if write.sequential:
                    assert [finding.path] == made, f"seed {seed}"
                assert len(finding.stats) == len(write.ops)
            elif finding is WriteVerdict.NOT_APPLIED:
                told["again"] += 1
                only_checks = all(isinstance(op, CheckOp) for op in write.ops)
                assert not happened or only_checks or world.excused(write), f"seed {seed}: {write} happened"
            else:
                told["unknown"] += 1
    assert told["settled"] > WORLDS / 2
    assert told["again"] > WORLDS / 2
    assert told["unknown"] < WORLDS


@pytest.mark.parametrize("seed", [0, 1, 2])
async def test_alone_and_with_a_value_of_its_own_a_write_is_always_told(seed: int) -> None:
    rng = random.Random(seed)
    for op in (CreateOp("/x", b"v"), CreateOp("/x", b"", True), PutOp("/a", b"v", 0), DeleteOp("/d", 0)):
        for happens in (False, True):
            model = Model()
            for path in ("/a", "/d"):
                model.run(Write((CreateOp(path),)), OTHERS)
            call = PendingRequest(b"", op.path, asyncio.get_running_loop().create_future(), 0.0, write=Write((op,)))
            call.bound, call.owner = model.zxid, OURS
            if happens:
                model.run(Write((op,)), OURS)
            for number in range(rng.randint(0, 5)):
                model.run(Write((CreateOp(f"/elsewhere-{number}"),)), OTHERS)
            (finding,) = await LostAnswerRecovery(model.probe).findings([call])
            assert isinstance(finding, Settled) is happens
            assert finding is not WriteVerdict.UNKNOWN
