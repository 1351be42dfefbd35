"""The verdict on a write whose answer was lost, case by case."""

import asyncio

import pytest

from magnetar.metadata.store import CheckOp, CreateOp, DeleteOp, Op, PutOp
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.jute_codec import ZkStat
from magnetar.metadata.zookeeper.lost_answer_rules import (
    FoundRecord,
    Write,
    WriteVerdict,
    judge,
    judge_numbered,
    numbered_names,
    stats_after,
    telling_op,
)
from magnetar.metadata.zookeeper.lost_answers import Finding, consistent
from magnetar.metadata.zookeeper.pending_request import PendingRequest, Settled

APPLIED, NOT_APPLIED, UNKNOWN = WriteVerdict.APPLIED, WriteVerdict.NOT_APPLIED, WriteVerdict.UNKNOWN
BOUND = 100
OWNER = 7
DONE = Settled("/a", [None])


def stat(czxid: int = 50, mzxid: int = 0, version: int = 0, owner: int = 0, pzxid: int = 0) -> ZkStat:
    return ZkStat(czxid, mzxid or czxid, 1000, 2000, version, 0, 0, owner, 0, 0, pzxid or czxid)


def found(value: bytes = b"mine", **fields: int) -> FoundRecord:
    return FoundRecord(value, stat(**fields))


@pytest.mark.parametrize(
    ("op", "record", "verdict"),
    [
        (CreateOp("/a", b"mine"), None, NOT_APPLIED),
        (CreateOp("/a", b"mine"), found(czxid=100), NOT_APPLIED),
        (CreateOp("/a", b"mine"), found(czxid=101), APPLIED),
        (CreateOp("/a", b"mine"), found(b"theirs", czxid=101), NOT_APPLIED),
        (CreateOp("/a", b"mine"), found(b"theirs", czxid=101, mzxid=102, version=1), UNKNOWN),
        (CreateOp("/a", b"mine"), found(czxid=101, owner=OWNER), NOT_APPLIED),
        (CreateOp("/a", b"", True), found(b"", czxid=101, owner=OWNER), APPLIED),
        (CreateOp("/a", b"", True), found(b"", czxid=101, owner=8), NOT_APPLIED),
        (CreateOp("/a", b"", True), found(b"", czxid=99, owner=OWNER), NOT_APPLIED),
        (PutOp("/a", b"mine", 3), None, NOT_APPLIED),
        (PutOp("/a", b"mine", 3), found(b"old", mzxid=100, version=3), NOT_APPLIED),
        (PutOp("/a", b"mine", 3), found(mzxid=101, version=4), APPLIED),
        (PutOp("/a", b"mine", 3), found(b"theirs", mzxid=101, version=4), NOT_APPLIED),
        (PutOp("/a", b"mine", 3), found(b"theirs", mzxid=102, version=5), UNKNOWN),
        (PutOp("/a", b"mine", 3), found(b"mine", mzxid=102, version=5), UNKNOWN),
        (PutOp("/a", b"mine", 3), found(b"theirs", czxid=101, version=0), NOT_APPLIED),
        (PutOp("/a", b"mine"), found(mzxid=101, version=9), APPLIED),
        (PutOp("/a", b"mine"), found(b"theirs", mzxid=101, version=9), UNKNOWN),
        (PutOp("/a", b"mine"), found(b"theirs", mzxid=100, version=9), NOT_APPLIED),
        (DeleteOp("/a"), found(czxid=100), NOT_APPLIED),
        (DeleteOp("/a"), found(czxid=101), UNKNOWN),
        (None, None, NOT_APPLIED),
    ],
)
def test_the_verdict_follows_from_what_is_there(
    op: Op | None, record: FoundRecord | None, verdict: WriteVerdict
) -> None:
    assert judge(op, record, stat(pzxid=200), BOUND, OWNER) is verdict


def test_a_delete_is_told_by_the_parent_whose_children_changed() -> None:
    assert judge(DeleteOp("/p/a"), None, stat(pzxid=101), BOUND, OWNER) is APPLIED
    assert judge(DeleteOp("/p/a"), None, stat(pzxid=100), BOUND, OWNER) is NOT_APPLIED
    assert judge(DeleteOp("/p/a"), None, None, BOUND, OWNER) is APPLIED


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        ([CheckOp("/a", 0)], None),
        ([DeleteOp("/a"), CheckOp("/b", 0)], DeleteOp("/a")),
        ([DeleteOp("/a"), CreateOp("/b"), PutOp("/c", b"v")], PutOp("/c", b"v")),
        ([PutOp("/c", b"v"), CreateOp("/e", ephemeral=True)], CreateOp("/e", ephemeral=True)),
        ([PutOp("/c", b"v"), CreateOp("/d"), DeleteOp("/c")], CreateOp("/d")),
    ],
)
def test_the_witness_is_the_op_that_tells_most(ops: list[Op], expected: Op | None) -> None:
    assert telling_op(Write(tuple(ops))) == expected


def test_only_names_that_a_sequential_create_makes_are_looked_at_the_youngest_first() -> None:
    children = ["n-0000000001", "n-0000000010", "m-0000000011", "n-12", "n-00000000012", "n-000000000x", "n-"]
    assert numbered_names(CreateOp("/p/n-"), children) == ["n-0000000010", "n-0000000001"]
    assert numbered_names(CreateOp("/p/"), ["0000000004", "a"]) == ["0000000004"]


def test_a_sequential_record_is_ours_by_owner_or_by_its_value() -> None:
    ephemeral = CreateOp("/p/n-", b"v", True)
    candidates = [
        ("/p/3", found(b"v", owner=OWNER)),
        ("/p/2", found(b"v", owner=OWNER)),
        ("/p/1", found(b"v", owner=8)),
    ]
    assert judge_numbered(ephemeral, candidates, OWNER) == (APPLIED, "/p/2")
    assert judge_numbered(ephemeral, candidates[2:], OWNER) == (NOT_APPLIED, "")
    persistent = CreateOp("/p/n-", b"token")
    assert judge_numbered(persistent, [("/p/2", found(b"token")), ("/p/1", found(b"other"))], OWNER) == (
        APPLIED,
        "/p/2",
    )
    assert judge_numbered(CreateOp("/p/n-"), [("/p/1", found(b""))], OWNER) == (UNKNOWN, "")
    assert judge_numbered(CreateOp("/p/n-"), [("/p/1", found(b"", owner=8))], OWNER) == (NOT_APPLIED, "")


def test_stats_are_told_as_the_lost_answer_would_have_told_them() -> None:
    write = Write((CreateOp("/a"), PutOp("/b", b"1"), PutOp("/b", b"2"), DeleteOp("/c"), PutOp("/d", b"", 4)))
    now = {"/a": stat(version=0), "/b": stat(version=8), "/d": stat(version=5)}
    versions = [None if one is None else one.version for one in stats_after(write, now)]
    assert versions == [0, 7, 8, None, 5]


def call(*ops: Op) -> PendingRequest:
    future = asyncio.get_running_loop().create_future()
    return PendingRequest(b"", ops[0].path, future, 0.0, write=Write(ops))


async def test_what_a_later_write_of_the_same_record_built_upon_is_not_sent_again() -> None:
    read = PendingRequest(b"", "/a", asyncio.get_running_loop().create_future(), 0.0)
    calls = [call(CreateOp("/a")), read, call(CreateOp("/b")), call(DeleteOp("/a")), call(PutOp("/a", b""))]
    findings = consistent(calls, [NOT_APPLIED, NOT_APPLIED, NOT_APPLIED, DONE, NOT_APPLIED])
    assert findings == [UNKNOWN, NOT_APPLIED, NOT_APPLIED, DONE, NOT_APPLIED]


@pytest.mark.parametrize(
    ("ops", "alone", "together"),
    [
        ([CreateOp("/a", b"", True)] * 3, [DONE] * 3, [DONE, NOT_APPLIED, NOT_APPLIED]),
        ([DeleteOp("/a")] * 2, [DONE] * 2, [DONE, NOT_APPLIED]),
        ([PutOp("/a", b"v", 1)] * 2, [DONE] * 2, [DONE, NOT_APPLIED]),
        ([PutOp("/a", b"v")] * 2, [DONE] * 2, [DONE, DONE]),
        ([CreateOp("/a"), DeleteOp("/a"), CreateOp("/a")], [DONE, UNKNOWN, DONE], [DONE, UNKNOWN, UNKNOWN]),
        ([CreateOp("/a"), CreateOp("/b")], [DONE, DONE], [DONE, DONE]),
    ],
)
async def test_of_equal_writes_one_has_won(ops: list[Op], alone: list[Finding], together: list[Finding]) -> None:
    assert consistent([call(op) for op in ops], alone) == together


def test_a_version_that_no_record_has_never_becomes_any_version() -> None:
    assert zk_codec.wire_version(None) == -1
    assert [zk_codec.wire_version(version) for version in (0, 5, 2**31 - 1)] == [0, 5, 2**31 - 1]
    assert {zk_codec.wire_version(version) for version in (-1, -7, 2**31)} == {zk_codec.NO_VERSION}
