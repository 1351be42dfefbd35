"""What one read of a peer's bytes becomes: groups, runs, immediate answers, or the fault that ends a connection."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.bookie.wire_session import FenceRead, ReadRun, WireAdds, WireSession, add_answers
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire.bookie_wire import AddFlags, BookieRc, ReadFlags
from tests.pulsar_proto.vectors import load, unhex
from tests.storage.bookie.helpers import entry_of

KEY, OTHER = b"k" * 20, b"o" * 20


def session() -> WireSession:
    return WireSession()


def v2_add(ledger_id: int, entry_id: int, *, key: bytes = KEY, flags: int = 0, version: int = 2) -> bytes:
    return v2.add_request(key, entry_of(ledger_id, entry_id), flags, version)


def v3_add(txn_id: int, ledger_id: int, entry_id: int, *, key: bytes = KEY, flags: int = 0) -> bytes:
    return v3.add_request(txn_id, ledger_id, entry_id, key, entry_of(ledger_id, entry_id), flags)


def shape(work: object) -> object:
    """Returns what the session made of a request in a form that can be compared."""
    if isinstance(work, WireAdds):
        return ("add", work.ledger_id, list(work.entry_ids), work.flags)
    if isinstance(work, ReadRun):
        return ("read", work.ledger_id, work.first_entry_id, work.count)
    return work


def shapes(data: bytes, on: WireSession | None = None) -> list[object]:
    works, stop = (on or session()).take(data)
    assert stop == len(data)
    return [shape(work) for work in works]


def test_adds_of_one_read_are_grouped_by_ledger() -> None:
    data = v2_add(1, 0) + v2_add(2, 7) + v2_add(1, 1) + v2_add(2, 8) + v2_add(1, 2)
    assert shapes(data) == [("add", 1, [0, 1, 2], 0), ("add", 2, [7, 8], 0)]


def test_another_key_or_other_flags_are_another_group() -> None:
    recovery = AddFlags.RECOVERY_ADD | AddFlags.HIGH_PRIORITY
    data = v2_add(1, 0) + v2_add(1, 1, key=OTHER) + v2_add(1, 2, flags=recovery) + v2_add(1, 3, flags=recovery)
    assert shapes(data) == [("add", 1, [0], 0), ("add", 1, [1], 0), ("add", 1, [2, 3], 6)]


def test_adds_do_not_overtake_a_read_or_fence_between_them() -> None:
    fence = v2.read_request(1, -1, ReadFlags.FENCING, KEY)
    data = v2_add(1, 0) + v2.read_request(1, 0) + v2_add(1, 1) + fence + v2_add(1, 2)
    assert shapes(data) == [
        ("add", 1, [0], 0),
        ("read", 1, 0, 1),
        ("add", 1, [1], 0),
        FenceRead(1, -1, ReadFlags.FENCING, KEY, 2, None),
        ("add", 1, [2], 0),
    ]


def test_consecutive_plain_reads_are_one_run_and_the_last_entry_is_alone() -> None:
    ids = [3, 4, 5, 7, -1, 0, 1]
    assert shapes(b"".join(v2.read_request(1, i) for i in ids)) == [
        ("read", 1, 3, 3),
        ("read", 1, 7, 1),
        ("read", 1, -1, 1),
        ("read", 1, 0, 2),
    ]
    works, _ = session().take(b"".join(v3.read_request(40 + i, 1, i) for i in range(3)))
    assert [work.txns for work in works if isinstance(work, ReadRun)] == [[40, 41, 42]]


def test_groups_of_consecutive_ids_go_as_a_range() -> None:
    def ids(*entry_ids: int) -> object:
        (group,), _ = session().take(b"".join(v2_add(1, entry_id) for entry_id in entry_ids))
        assert isinstance(group, WireAdds)
        return group.ids()

    assert ids(4, 5, 6) == range(4, 7)
    assert ids(-3) == range(-3, -2)
    assert ids(4, 6, 5, 7) == [4, 6, 5, 7]
    assert ids(4, 4) == [4, 4]


def test_a_key_after_a_read_that_does_not_fence_is_ignored() -> None:
    """Apache's bookie accepts such a request too."""
    request = bytearray(v2.read_request(1, 5, ReadFlags.FENCING, KEY))
    request[7] = 0
    assert shapes(bytes(request)) == [("read", 1, 5, 1)]


def test_answers_echo_the_version_of_the_request() -> None:
    """Apache's bookie does the same: it serves version 1 and refuses version 3, and both answers carry the request's
    version. In version 0 the header is only an opcode."""
    (group,), _ = session().take(v2_add(1, 0, version=1))
    assert isinstance(group, WireAdds)
    assert add_answers(group, 0) == v2.add_response(0, 1, 0, version=1)
    assert shapes(v2_add(1, 0, version=3)) == [v2.add_response(BookieRc.EBADVERSION, 1, 0, version=3)]
    bare = pack(">II", 4 + 20 + len(entry_of(1, 0)), 1) + KEY + entry_of(1, 0)
    (group,), _ = session().take(bare)
    assert isinstance(group, WireAdds)
    assert add_answers(group, 0) == pack(">IIiqq", 24, 1, 0, 1, 0)
    read = bytearray(v2.read_request(1, 0))
    read[4] = 3
    assert shapes(bytes(read)) == [v2.read_response(BookieRc.EBADVERSION, 1, 0, version=3)]


def test_v2_may_follow_v3_on_a_connection_but_v3_not_v2() -> None:
    """Apache's bookie closes the connection in this case too."""
    peer = session()
    assert shapes(v3.read_request(1, 7, 0), peer) == [("read", 7, 0, 1)]
    assert shapes(v2.read_request(7, 0), peer) == [("read", 7, 0, 1)]
    peer.take(v3.read_request(1, 7, 0))
    assert peer.fault is not None


def test_v2_adds_alone_switch_the_connection_to_v2() -> None:
    peer = session()
    assert shapes(v3_add(1, 7, 0) + v2_add(7, 1), peer) == [("add", 7, [0], 0), ("add", 7, [1], 0)]
    peer.take(v3_add(2, 7, 2))
    assert peer.fault is not None


def test_v3_adds_store_under_the_ids_of_the_body_and_echo_those_of_the_request() -> None:
    frame = v3.add_request(9, 5, 3, KEY, entry_of(7, 0))
    (group,), _ = session().take(frame)
    assert isinstance(group, WireAdds)
    assert (group.ledger_id, group.entry_ids) == (7, [0])
    assert add_answers(group, 0) == v3.add_responses(0, [v3.echo_of(9, 5, 3)])


@pytest.mark.parametrize("size", [0, 5, 15, 16, 23])
def test_too_short_entries_are_refused_and_harm_no_neighbour(size: int) -> None:
    short = v3.add_request(8, 7, 1, KEY, entry_of(7, 1)[:size])
    works = shapes(v3_add(7, 7, 0) + short + v3_add(9, 7, 2))
    refused = v3.refusal(v3.parse_request(short[4:]), BookieRc.EBADREQ)
    assert sorted(map(str, works)) == sorted(map(str, [("add", 7, [0, 2], 0), refused]))
    if size >= 16:
        assert shapes(v2.add_request(KEY, entry_of(7, 1)[:size])) == [v2.add_response(BookieRc.EBADREQ, 7, 1)]


def test_operations_that_nobody_serves_are_refused_by_header_and_status_alone() -> None:
    """Apache's bookie without TLS refuses START_TLS in the same way. BATCH_READ_ENTRY exists only in v2."""
    for operation in (pb.START_TLS, pb.BATCH_READ_ENTRY, pb.RANGE_READ_ENTRY, pb.RANGE_ADD_ENTRY):
        (answer,) = shapes(v3.frame(v3.new_request(operation, 5)))
        assert isinstance(answer, bytes)
        response = v3.parse_response(answer[4:])
        assert response.status == pb.EBADREQ
        assert [field.name for field, _ in response.ListFields()] == ["header", "status"]


def test_auth_is_answered_as_disabled_in_both_protocols() -> None:
    message = pb.AuthMessage(authPluginName="any", payload=b"x")
    (answer,) = shapes(v2.auth_request(message.SerializeToString()))
    assert isinstance(answer, bytes)
    assert answer[4:8] == b"\x02\x03\0\0"
    assert pb.AuthMessage.FromString(answer[8:]).authPluginName == "AuthDisabledPlugin"
    request = v3.new_request(pb.AUTH, 5)
    request.authRequest.CopyFrom(message)
    (answer,) = shapes(v3.frame(request))
    assert isinstance(answer, bytes)
    response = v3.parse_response(answer[4:])
    assert (response.status, response.authResponse.authPluginName) == (pb.EOK, "AuthDisabledPlugin")


def test_a_wrong_version_in_v3_is_refused_with_the_ids() -> None:
    request = v3.parse_request(v3_add(5, 7, 3)[4:])
    request.header.version = pb.VERSION_TWO
    (answer,) = shapes(v3.frame(request))
    assert isinstance(answer, bytes)
    response = v3.parse_response(answer[4:])
    assert (response.status, response.addResponse.status) == (pb.EBADVERSION, pb.EBADVERSION)
    assert (response.addResponse.ledgerId, response.addResponse.entryId) == (7, 3)


@pytest.mark.parametrize(
    "bad",
    [
        b"\0\0\0\0",
        b"\0\0\0\x03\x02\x02\0",
        b"\0\0\0\x0c\x02\x63\0\0" + bytes(8),
        b"\0\0\0\x0c\x02\x04\0\0" + bytes(8),
        v2.read_request(1, -1, ReadFlags.FENCING, KEY[:10]),
        b"\0\0\0\x04\x0a\x7f\0\0",
        b"\0\0\0\x0a\x0a\x06\x08\x03\x10\x63\x18\x01\0\0",
    ],
)
def test_what_came_before_a_malformed_packet_is_still_done(bad: bytes) -> None:
    peer = session()
    works, _ = peer.take(v2_add(1, 0) + bad + v2_add(1, 1) if bad[4:5] != b"\x0a" else v3_add(1, 1, 0) + bad)
    assert [shape(work) for work in works] == [("add", 1, [0], 0)]
    assert peer.fault is not None


CAPTURED: list[bytes] = [unhex(x["request"]) for x in load("bookkeeper_exchanges.json") if x["response"]]


@given(st.lists(st.sampled_from(CAPTURED), max_size=6), st.data())
def test_a_stream_cut_anywhere_asks_for_the_same(requests: list[bytes], data: st.DataObject) -> None:
    in_v3 = [request for request in requests if request[4:5] == b"\x0a"]
    stream = b"".join(in_v3 + [request for request in requests if request[4:5] != b"\x0a"])
    whole = asked(stream, [len(stream)])
    cuts = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=10))
    assert asked(stream, cuts) == whole


def asked(stream: bytes, sizes: list[int]) -> list[str]:
    """Returns each single request, whichever group it came in."""
    peer, kept, start, turn = session(), b"", 0, 0
    found: list[object] = []
    while start < len(stream):
        size = sizes[turn % len(sizes)]
        kept += stream[start : start + size]
        works, stop = peer.take(kept)
        kept, start, turn = kept[stop:], start + size, turn + 1
        for work in works:
            if isinstance(work, WireAdds):
                pairs = zip(work.entry_ids, work.entries, strict=True)
                found += [("add", work.ledger_id, entry_id, entry, work.flags) for entry_id, entry in pairs]
            elif isinstance(work, ReadRun):
                found += [("read", work.ledger_id, work.first_entry_id + i, work.version) for i in range(work.count)]
            else:
                found.append(work)
    assert peer.fault is None
    return sorted(map(str, found))


@given(st.binary(max_size=300))
def test_any_bytes_are_works_or_a_fault(data: bytes) -> None:
    peer = session()
    works, stop = peer.take(data)
    assert 0 <= stop <= len(data)
    assert peer.fault is None or isinstance(peer.fault, str)
    assert all(len(work.entries) == len(work.entry_ids) for work in works if isinstance(work, WireAdds))
