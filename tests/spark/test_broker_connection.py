"""The data source's own connection against a broker that plays a script: it asks questions in between, sends nonsense,
or ends the connection."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.spark.source.client.broker_connection import BrokerConnection, ClientLogin, Disconnected
from pulsar_proto.errors import AuthenticationFault, ConsumerBusy
from pulsar_proto.ids import NO_REQUEST_ID
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import (
    close_consumer_frame,
    connected_frame,
    error_frame,
    ping_frame,
    simple_frame,
    success_frame,
)
from pulsar_proto.wire.framing import FrameReader

ROOT = Path(__file__).resolve().parents[2]
SUBSCRIBE = pb.CommandSubscribe(
    topic="t", subscription="s", subType=pb.CommandSubscribe.Exclusive, consumer_id=1, request_id=0
)


class Broker:
    """Takes one connection. It sends `answers`, one after each command that comes."""

    def __init__(self, answers: list[bytes]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"pulsar://127.0.0.1:{self._listener.getsockname()[1]}"
        self._answers = answers
        self.commands: list[pb.BaseCommand] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            reader = FrameReader()
            while self._answers:
                count = connection.recv_into(reader.get_buffer())
                if not count:
                    return
                for command, _ in reader.received(count):
                    self.commands.append(pb.BaseCommand.FromString(command))
                    if self._answers:
                        connection.sendall(self._answers.pop(0))
            connection.recv(1)

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()


CONNECTED = connected_frame("test", 21, 1_000_000, pb.FeatureFlags())


@pytest.fixture
def brokers() -> Iterator[list[Broker]]:
    made: list[Broker] = []
    yield made
    for broker in made:
        broker.close()


def connect(brokers: list[Broker], *answers: bytes, login: ClientLogin | None = None) -> BrokerConnection:
    brokers.append(Broker(list(answers)))
    return BrokerConnection(brokers[-1].url, login or ClientLogin(timeout_seconds=5))


def subscribe(connection: BrokerConnection) -> pb.BaseCommand:
    return connection.request(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=SUBSCRIBE), "subscribe")


def test_a_ping_before_the_answer_is_answered(brokers: list[Broker]) -> None:
    connection = connect(brokers, CONNECTED, ping_frame() + success_frame(1), b"")
    assert subscribe(connection).success.request_id == 1
    connection.close()
    brokers[0].close()
    assert [command.type for command in brokers[0].commands] == [
        pb.BaseCommand.CONNECT,
        pb.BaseCommand.SUBSCRIBE,
        pb.BaseCommand.PONG,
    ]


def test_errors_keep_the_brokers_words(brokers: list[Broker]) -> None:
    connection = connect(brokers, CONNECTED, error_frame(1, pb.ConsumerBusy, "taken by bob"))
    with pytest.raises(ConsumerBusy, match="taken by bob"):
        subscribe(connection)
    connection.close()
    with pytest.raises(AuthenticationFault, match="no"):
        connect(brokers, error_frame(NO_REQUEST_ID, pb.AuthenticationError, "no"))


def test_a_refreshed_token_is_read_from_its_file_again(brokers: list[Broker], tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    challenge = pb.CommandAuthChallenge(challenge=pb.AuthData(auth_method_name="token"))
    asked = simple_frame(pb.BaseCommand(type=pb.BaseCommand.AUTH_CHALLENGE, authChallenge=challenge))
    login = ClientLogin(token_file=str(path), timeout_seconds=5)
    connection = connect(brokers, CONNECTED, asked + success_frame(1), b"", login=login)
    path.write_text("second\n")
    subscribe(connection)
    connection.close()
    brokers[0].close()
    commands = brokers[0].commands
    assert commands[0].connect.auth_data == b"first"
    assert commands[2].authResponse.response.auth_data == b"second"
    assert "second" not in repr(login)


def test_a_consumer_closed_by_the_broker_makes_the_connection_useless(brokers: list[Broker]) -> None:
    connection = connect(brokers, CONNECTED, success_frame(1) + close_consumer_frame(1))
    subscribe(connection)
    deadline = time.monotonic() + 60
    while connection.is_alive():
        assert time.monotonic() < deadline
    connection.close()


def test_silence_and_an_early_end_are_disconnections(brokers: list[Broker]) -> None:
    with pytest.raises(Disconnected, match=r"did not answer within 0.2 s"):
        connect(brokers, b"", login=ClientLogin(timeout_seconds=0.2))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"pulsar://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(Disconnected, match="cannot connect to"):
        BrokerConnection(url, ClientLogin(timeout_seconds=1))


def test_a_block_has_frames_of_the_broker_s_size_and_waits_no_longer_than_asked(brokers: list[Broker]) -> None:
    large = error_frame(1, pb.UnknownError, "x" * 500_000)
    connection = connect(brokers, CONNECTED, large, b"")
    connection.send(ping_frame())
    found = connection.block(time.monotonic() + 60)
    assert found is not None
    assert found[1].tolist() == [0]
    assert connection.max_message_size == 1_000_000
    assert connection.block(time.monotonic() + 0.05) is None
    connection.close()


def test_another_protocol_on_the_port_is_named(brokers: list[Broker]) -> None:
    with pytest.raises(Disconnected, match=r"begins with b'HTTP/1\.1 400"):
        connect(brokers, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ValueError, match="is no service URL"):
        BrokerConnection("http://127.0.0.1:1", ClientLogin())


@pytest.mark.process
@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "numpy"])
def test_without_the_extra_an_import_says_what_to_install(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom magnetar.spark import PulsarDataSource"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=180)
    assert f"needs {missing}, which is not installed: pip install 'magnetar[spark]'" in done.stderr.splitlines()[-1]
