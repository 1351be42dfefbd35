"""The rules of the session, without a network: handshakes, the order of answers, time, and requests given back."""

import asyncio
import struct

import pytest

from magnetar.metadata.store import EventType
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.server_link import ServerLink
from magnetar.metadata.zookeeper.session_rules import (
    FRAMES_AT_ONCE,
    REPLY_BYTES_MAX,
    Attached,
    Attachment,
    IllegalEventError,
    Notification,
    ProtocolError,
    ZkAnswer,
    ZkSession,
    ZkSessionState,
    backoff_seconds,
)

PASSWORD = bytes(range(16))


def connect_reply(session_id: int = 7, timeout_ms: int = 3000) -> bytes:
    return zk_codec.frame(struct.pack(">iiqi", 0, timeout_ms, session_id, 16) + PASSWORD + b"\0")


def answer(xid: int, zxid: int = 1, error: int = 0, payload: bytes = b"") -> bytes:
    return zk_codec.frame(struct.pack(">qi", zxid, error) + payload, xid)


def event(kind: int, path: str) -> bytes:
    return answer(zk_codec.WATCH_XID, -1, 0, struct.pack(">iii", kind, 3, len(path)) + path.encode())


@pytest.fixture
def session() -> ZkSession[str]:
    session: ZkSession[str] = ZkSession(3000)
    session.dial(0.0)
    assert session.receive(connect_reply(), 0.0) == [Attached(Attachment.NEW)]
    return session


def test_a_handshake_carries_what_is_known_of_the_session(session: ZkSession[str]) -> None:
    session.send("a", zk_codec.get_body("/a"), 0.0)
    session.receive(answer(1, zxid=42), 0.0)
    session.lost()
    hello = session.dial(1.0)
    assert struct.unpack_from(">iiqiqi", hello) == (len(hello) - 4, 0, 42, 3000, 7, 16)
    assert PASSWORD in hello
    assert session.receive(connect_reply(), 1.0) == [Attached(Attachment.RESUMED)]


def test_failed_handshakes_keep_the_session_and_only_the_server_ends_it(session: ZkSession[str]) -> None:
    session.lost()
    for _ in range(3):
        session.dial(1.0)
        session.lost()
    assert (session.session_id, session.password) == (7, PASSWORD)
    session.dial(2.0)
    assert session.receive(connect_reply(session_id=0, timeout_ms=0), 2.0) == [Attached(Attachment.EXPIRED)]
    assert (session.session_id, session.state) == (0, ZkSessionState.DISCONNECTED)
    session.dial(3.0)
    assert session.receive(connect_reply(session_id=9), 3.0) == [Attached(Attachment.NEW)]


def test_answers_and_events_come_in_order_however_the_bytes_are_cut(session: ZkSession[str]) -> None:
    for call in "abc":
        session.send(call, zk_codec.get_body("/x"), 0.0)
    stream = answer(1, 5, 0, b"one") + event(3, "/x") + answer(2, 6, -101) + answer(zk_codec.PING_XID) + answer(3, 7)
    expected = [
        ZkAnswer("a", 0, 5, b"one"),
        Notification(EventType.CHANGED, "/x"),
        ZkAnswer("b", -101, 6, b""),
        ZkAnswer("c", 0, 7, b""),
    ]
    assert [one for byte in stream for one in session.receive(bytes([byte]), 0.0)] == expected
    assert (session.last_zxid, session.in_flight, session.in_flight_bytes) == (7, 0, 0)


@pytest.mark.parametrize(
    "stream",
    [
        answer(2),
        answer(1) + answer(1),
        struct.pack(">i", REPLY_BYTES_MAX + 1),
        b"\xff\xff\xff\xff",
        zk_codec.frame(b"short"),
        event(3, "/x")[:-1][:3] + b"\x10" + event(3, "/x")[4:20],
    ],
)
def test_bytes_that_make_no_sense_are_a_fault_of_the_server(session: ZkSession[str], stream: bytes) -> None:
    session.send("a", zk_codec.get_body("/x"), 0.0)
    with pytest.raises(ProtocolError):
        session.receive(stream, 0.0)


def test_what_was_not_answered_is_given_back_in_order(session: ZkSession[str]) -> None:
    for call in "abcd":
        session.send(call, zk_codec.get_body("/x"), 0.0)
    session.receive(answer(1) + answer(2)[:6], 0.0)
    assert session.oldest() == "b"
    assert list(session.calls()) == session.lost() == ["b", "c", "d"]
    assert session.lost() == []
    session.dial(1.0)
    session.receive(connect_reply(), 1.0)
    session.send("e", zk_codec.get_body("/x"), 1.0)
    assert session.receive(answer(5), 1.0) == [ZkAnswer("e", 0, 1, b"")]


def test_pings_are_frequent_and_the_link_is_given_up_after_two_thirds(session: ZkSession[str]) -> None:
    assert session.due(0.19) == b""
    ping = session.due(0.21)
    assert ping == zk_codec.frame(zk_codec.ping_body(), zk_codec.PING_XID)
    assert session.due(0.4) == b""
    session.receive(answer(zk_codec.PING_XID), 1.6)
    assert session.due(1.7) == ping
    with pytest.raises(ProtocolError, match="said nothing"):
        session.due(3.6)


def test_a_server_is_silent_long_before_the_link_is_given_up_and_until_it_says_something(
    session: ZkSession[str],
) -> None:
    assert not session.is_silent(0.59)
    assert session.is_silent(0.61)
    assert session.due(0.61), "the link stays"
    session.receive(answer(zk_codec.PING_XID), 0.7)
    assert not session.is_silent(0.7)


def test_requests_put_the_ping_off_but_not_the_silence(session: ZkSession[str]) -> None:
    session.send("a", zk_codec.get_body("/x"), 0.19)
    assert session.due(0.38) == b""
    with pytest.raises(ProtocolError):
        session.due(2.0)


def test_an_illegal_event_raises_and_changes_nothing() -> None:
    session: ZkSession[str] = ZkSession(3000)
    with pytest.raises(IllegalEventError):
        session.send("a", b"", 0.0)
    session.dial(0.0)
    with pytest.raises(IllegalEventError):
        session.dial(0.0)
    assert session.state is ZkSessionState.HANDSHAKE
    session.close()
    with pytest.raises(IllegalEventError):
        session.dial(0.0)
    assert session.lost() == []
    assert session.due(100.0) == b""


def test_a_refused_authentication_is_a_fault(session: ZkSession[str]) -> None:
    assert session.receive(answer(zk_codec.AUTH_XID), 0.0) == []
    with pytest.raises(ProtocolError, match="authentication"):
        session.receive(answer(zk_codec.AUTH_XID, error=-115), 0.0)


def test_the_pause_between_rounds_grows_to_a_second_and_is_never_the_same_for_all() -> None:
    assert [backoff_seconds(rounds, 1.0) for rounds in (1, 2, 3, 4)] == [0.1, 0.2, 0.4, 0.8]
    assert all(backoff_seconds(rounds, 1.0) == 1.0 for rounds in (5, 50, 10_000))
    assert backoff_seconds(50, 0.0) == 0.5


async def test_a_connection_that_comes_after_it_was_given_up_is_closed() -> None:
    """Dialling has a time limit; a connection that the system makes after it must not stay open."""

    class Transport(asyncio.Transport):
        aborted = 0

        def abort(self) -> None:
            self.aborted += 1

    link, transport = ServerLink("zk1:2181", lambda *_: None, lambda *_: None), Transport()
    link.abort()
    link.connection_made(transport)
    assert (link.is_gone, link.attached.result(), transport.aborted) == (True, False, 1)


def test_a_read_with_many_events_is_taken_in_portions_and_in_order(session: ZkSession[str]) -> None:
    session.send("a", zk_codec.get_body("/a"), 0.0)
    paths = [f"/{number}" for number in range(3 * FRAMES_AT_ONCE)]
    data = b"".join(event(1, path) for path in paths) + answer(1)
    taken = session.receive(data, 0.0)
    assert len(taken) == FRAMES_AT_ONCE
    assert session.has_more
    for more in (event(1, "/late")[:7], event(1, "/late")[7:], b"", b""):
        taken += session.receive(more, 0.0)
    assert not session.has_more
    heard = [one.path for one in taken if isinstance(one, Notification)]
    assert heard == [*paths, "/late"]
    assert isinstance(taken[-2], ZkAnswer), "the answer comes behind the events that were sent before it"
