"""The rules of `magnetar.server.protocol.connection_rules` without a socket or a clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.protocol.connection_rules import (
    BEFORE_CONNECTED,
    CLIENT_COMMANDS,
    RECENTLY_CLOSED_MAX,
    CommandVerdict,
    ConnectionState,
    IllegalTransitionError,
    KeepAlive,
    KeepAliveAction,
    RecentlyClosed,
    Session,
)
from magnetar.server.protocol.handlers.command_table import TABLE
from pulsar_proto.pb import pulsar_api_pb2 as pb

ALL_TYPES = sorted(pb.BaseCommand.Type.values())
BROKER_ONLY = {
    pb.BaseCommand.CONNECTED,
    pb.BaseCommand.SEND_RECEIPT,
    pb.BaseCommand.MESSAGE,
    pb.BaseCommand.SUCCESS,
    pb.BaseCommand.ERROR,
    pb.BaseCommand.LOOKUP_RESPONSE,
    pb.BaseCommand.AUTH_CHALLENGE,
}


def connected() -> Session:
    session = Session()
    session.accept("test", 20)
    return session


class TestJudge:
    def test_before_connect_only_connect_and_pings_are_handled(self) -> None:
        for command_type in ALL_TYPES:
            expected = CommandVerdict.HANDLE if command_type in BEFORE_CONNECTED else CommandVerdict.CLOSE
            if command_type >= pb.BaseCommand.SCALABLE_TOPIC_LOOKUP:
                expected = CommandVerdict.IGNORE
            assert Session().judge(command_type) is expected, command_type

    def test_a_second_connect_closes(self) -> None:
        session = connected()
        assert session.judge(pb.BaseCommand.CONNECT) is CommandVerdict.CLOSE
        assert session.why_illegal(pb.BaseCommand.CONNECT) == "a second CONNECT"

    def test_while_authenticating_only_pings_are_handled(self) -> None:
        session = Session()
        session.begin()
        handled = {kind for kind in ALL_TYPES if session.judge(kind) is CommandVerdict.HANDLE}
        assert handled == {pb.BaseCommand.PING, pb.BaseCommand.PONG}
        assert session.why_illegal(pb.BaseCommand.LOOKUP) == "LOOKUP before CONNECTED"
        session.accept("test", 20)
        assert session.judge(pb.BaseCommand.LOOKUP) is CommandVerdict.HANDLE

    @pytest.mark.parametrize("command_type", sorted(BROKER_ONLY))
    def test_what_only_brokers_send_closes(self, command_type: int) -> None:
        assert connected().judge(command_type) is CommandVerdict.CLOSE

    def test_every_command_that_is_handled_has_a_handler(self) -> None:
        assert set(TABLE) == (CLIENT_COMMANDS | BEFORE_CONNECTED) - {pb.BaseCommand.SEND}

    def test_everything_is_ignored_after_the_close(self) -> None:
        session = connected()
        assert session.close()
        assert not session.close()
        assert {session.judge(command_type) for command_type in ALL_TYPES} == {CommandVerdict.IGNORE}


class TestAccept:
    @pytest.mark.parametrize(("client", "spoken"), [(0, 0), (12, 12), (21, 21), (99, 21), (-5, 0)])
    def test_the_lower_protocol_version_is_spoken(self, client: int, spoken: int) -> None:
        session = Session()
        session.accept("Pulsar-CPP-v4.2.0", client)
        assert (session.protocol_version, session.client_version) == (spoken, "Pulsar-CPP-v4.2.0")

    @pytest.mark.parametrize("state", ["connected", "closed"])
    def test_accepting_elsewhere_raises_and_changes_nothing(self, state: str) -> None:
        session = connected()
        if state == "closed":
            session.close()
        with pytest.raises(IllegalTransitionError):
            session.accept("other", 1)
        assert session.client_version == "test"
        assert session.state.value == state


class TestKeepAlive:
    def test_pings_once_an_interval(self) -> None:
        keep_alive = KeepAlive(30.0, 100.0)
        assert keep_alive.tick(129.9, ConnectionState.CONNECTED, False) is KeepAliveAction.NOTHING
        assert keep_alive.tick(130.0, ConnectionState.CONNECTED, False) is KeepAliveAction.PING
        keep_alive.heard()
        assert keep_alive.tick(159.0, ConnectionState.CONNECTED, False) is KeepAliveAction.NOTHING
        assert keep_alive.tick(160.0, ConnectionState.CONNECTED, False) is KeepAliveAction.PING

    def test_silence_after_a_ping_closes(self) -> None:
        keep_alive = KeepAlive(30.0, 0.0)
        keep_alive.tick(30.0, ConnectionState.CONNECTED, False)
        assert keep_alive.tick(60.0, ConnectionState.CONNECTED, False) is KeepAliveAction.CLOSE

    def test_silence_proves_nothing_while_we_do_not_read(self) -> None:
        keep_alive = KeepAlive(30.0, 0.0)
        keep_alive.tick(30.0, ConnectionState.CONNECTED, False)
        assert keep_alive.tick(60.0, ConnectionState.CONNECTED, True) is KeepAliveAction.PING

    def test_a_handshake_that_does_not_end_closes(self) -> None:
        keep_alive = KeepAlive(30.0, 0.0)
        assert keep_alive.tick(29.0, ConnectionState.START, False) is KeepAliveAction.NOTHING
        assert keep_alive.tick(30.0, ConnectionState.START, False) is KeepAliveAction.CLOSE

    def test_a_closed_connection_is_left_alone(self) -> None:
        assert KeepAlive(30.0, 0.0).tick(99.0, ConnectionState.CLOSED, False) is KeepAliveAction.NOTHING


class TestRecentlyClosed:
    def test_remembers_for_one_interval(self) -> None:
        closed = RecentlyClosed(30.0)
        closed.add(7, 100.0)
        assert closed.contains(7, 129.9)
        assert not closed.contains(7, 130.0)
        assert not closed.contains(8, 100.0)

    def test_forgets_an_id_that_is_in_use_again(self) -> None:
        closed = RecentlyClosed(30.0)
        closed.add(7, 100.0)
        closed.discard(7)
        closed.discard(7)
        assert not closed.contains(7, 100.0)

    @given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 20)), max_size=40))
    def test_agrees_with_a_plain_dictionary(self, steps: list[tuple[int, float]]) -> None:
        closed = RecentlyClosed(10.0)
        twin: dict[int, float] = {}
        now = 0.0
        for producer_id, passed in steps:
            now += passed
            closed.add(producer_id, now)
            twin[producer_id] = now + 10.0
            for each in range(6):
                assert closed.contains(each, now) == (twin.get(each, 0.0) > now)

    def test_is_bounded(self) -> None:
        closed = RecentlyClosed(30.0)
        for producer_id in range(RECENTLY_CLOSED_MAX + 10):
            closed.add(producer_id, 0.0)
        assert not closed.contains(9, 1.0)
        assert closed.contains(10, 1.0)
