"""Plays scenarios to one server and writes down its answers, in words that another server would use too."""

import json
import re
import select
import socket
import struct
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

from compat_tests.harness import wait_until
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint
from pulsar_proto.wire.commands import send_frame, simple_frame
from tests.server.fakes import command
from tests.server.protocol.frame_strategies import CONNECT, PAYLOAD
from tests.twins.scenario import CLOSE, LEDGER, TRANSACTION, UNLOAD, Scenario

SECONDS_MAX = 30.0
ROUNDS_MAX = 40
READ_BYTES = 1 << 20
PING = simple_frame(command("PING", "ping"))
GREETED = (
    pb.BaseCommand.SUCCESS,
    pb.BaseCommand.PRODUCER_SUCCESS,
    pb.BaseCommand.TC_CLIENT_CONNECT_RESPONSE,
    pb.BaseCommand.ERROR,
)
SILENT = (pb.BaseCommand.PING, pb.BaseCommand.PONG, pb.BaseCommand.CONNECTED)
LEDGER_MAX = 1 << 27
"""Ids of ledgers are lower here; those that a scenario made up may be higher."""
WORDS = (
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), "ADDRESS"),
    (re.compile(r"standalone-\d+-\d+"), "PRODUCER"),
    (re.compile(r"txnid_least_bits: \d+"), "txnid_least_bits: TRANSACTION"),
    (re.compile(r"\(\d+, ?\d+\)"), "TRANSACTION"),
    (re.compile(r"connectedSince: .*"), "connectedSince"),
)
"""What two servers name differently, and its replacement."""
LEDGERS = re.compile(r"ledgerId: (\d+)|(?<![-\d])(\d+)(?=:-?\d)")
"""Ledgers in commands and in positions."""

CURSOR_KEYS = ("markDeletePosition", "individuallyDeletedMessages", "messagesConsumedCounter")

Trace = list[list[str]]
"""The answers to each step, sorted, because answers to several frames may come in another order."""


class Connection:
    def __init__(self, port: int, greetings: list[bytes]) -> None:
        self.port = port
        self.is_closed = False
        self._buffer = b""
        self._socket = socket.create_connection(("127.0.0.1", port), SECONDS_MAX)
        self.say(CONNECT)
        for greeting in greetings:
            self.say(greeting)
            if pb.BaseCommand.FromString(greeting[8:]).type != pb.BaseCommand.FLOW:
                self.heard_until(GREETED, SECONDS_MAX)

    def say(self, data: bytes) -> None:
        """Sends. When the server has closed the connection, what it said before that can still be heard."""
        with suppress(OSError):
            self._socket.sendall(data)

    def answers(self, patience: float) -> list[tuple[pb.BaseCommand, bytes]]:
        """Returns all commands that come within `patience` seconds, and then until the server has nothing to say but
        PONG, each with what follows it."""
        found = self.heard_until((), patience)
        for _ in range(ROUNDS_MAX):
            self.say(PING)
            heard = self.heard_until((pb.BaseCommand.PONG,), SECONDS_MAX)
            found += heard
            if self.is_closed or all(made.type in SILENT for made, _ in heard):
                break
        return [each for each in found if each[0].type not in SILENT]

    def heard_until(self, kinds: tuple[int, ...], seconds: float) -> list[tuple[pb.BaseCommand, bytes]]:
        """Reads until a command of these types comes, or the server closes the connection. Without `kinds` it reads for
        so many seconds; otherwise TimeoutError is raised then."""
        heard: list[tuple[pb.BaseCommand, bytes]] = []
        deadline = time.monotonic() + seconds
        while not self.is_closed and not any(made.type in kinds for made, _ in heard):
            if not select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
                if not kinds:
                    break
                raise TimeoutError(f"no answer within {seconds} s")
            try:
                part = self._socket.recv(READ_BYTES)
            except ConnectionError:
                part = b""
            self.is_closed = not part
            self._buffer += part
            heard += self._frames()
        return heard

    def close(self) -> None:
        self._socket.close()

    def _frames(self) -> list[tuple[pb.BaseCommand, bytes]]:
        found = []
        while len(self._buffer) >= 4:
            end = 4 + struct.unpack(">I", self._buffer[:4])[0]
            if len(self._buffer) < end:
                break
            frame, self._buffer = self._buffer[4:end], self._buffer[end:]
            behind = 4 + struct.unpack(">I", frame[:4])[0]
            found.append((pb.BaseCommand.FromString(frame[4:behind]), frame[behind:]))
        return found


class Player:
    """Plays to the server with these addresses."""

    def __init__(self, broker_port: int, web_url: str) -> None:
        self._port = broker_port
        self._web_url = web_url

    def play(self, scenario: Scenario, patience: float) -> Trace:
        """Returns the answers, and at last what REST tells of the topics' entries and cursors. `patience` is how many
        seconds to wait after each step for what the server does without being asked."""
        told = Words()
        connections: dict[int, Connection] = {}
        trace: Trace = []
        for number, frame in scenario.steps:
            if frame == UNLOAD:
                for connection in connections.values():
                    connection.close()
                connections.clear()
                trace.append([str(self.call("PUT", f"{_rest(scenario.topics[0])}/unload"))])
                continue
            heard = []
            if number not in connections or connections[number].is_closed:
                connections[number] = Connection(self._port, scenario.greetings[number])
                heard += self._heard(connections, told, scenario, patience)
            if frame == CLOSE:
                connections.pop(number).close()
                trace.append(sorted(heard))
                continue
            connections[number].say(told.with_real_ids(frame))
            heard += self._heard(connections, told, scenario, patience)
            heard += [f"{each} closed" for each, connection in connections.items() if connection.is_closed]
            trace.append(sorted(heard))
            if connections[number].is_closed:
                self._let_rest(scenario.topics[0])
        for connection in connections.values():
            connection.close()
        for topic in scenario.topics:
            self._let_rest(topic)
        trace.append([told.plain(self._state(topic)) for topic in scenario.topics])
        return trace

    def call(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Calls REST; returns the status and the answer."""
        headers = {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._web_url + path, data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def _heard(
        self, connections: dict[int, Connection], told: "Words", scenario: Scenario, patience: float
    ) -> list[str]:
        """Returns what the server says to the connections until it neither stores nor reads messages of the topics. The
        next frame may close a connection, and how many of its messages come before that would be a matter of time."""
        heard = []
        for seconds in (patience, 0.0):
            for number, connection in connections.items():
                answers = connection.answers(seconds / len(connections))
                heard += [f"{number} {told.of(made)} {payload!r}" for made, payload in answers]
            wait_until(lambda: all(map(self._is_idle, scenario.topics)), "the topics are idle", SECONDS_MAX)
        return heard

    def _is_idle(self, topic: str) -> bool:
        status, answer = self.call("GET", f"{_rest(topic)}/internalStats")
        if status != 200:
            return True
        stats = json.loads(answer)
        reads = (each["pendingReadOps"] for each in stats["cursors"].values())
        return not stats["pendingAddEntriesCount"] and not any(reads)

    def _let_rest(self, topic: str) -> None:
        """Returns when all that closed connections have sent to the topic is stored: a message of another connection
        is stored behind it. A topic that nobody has made is left alone."""
        if self.call("GET", f"{_rest(topic)}/internalStats")[0] != 200:
            return
        producer = command("PRODUCER", "producer", topic=topic, producer_id=0, request_id=1)
        connection = Connection(self._port, [simple_frame(producer)])
        connection.say(send_frame(pb.CommandSend(producer_id=0, sequence_id=0), PAYLOAD))
        connection.heard_until((pb.BaseCommand.SEND_RECEIPT, pb.BaseCommand.SEND_ERROR), SECONDS_MAX)
        connection.close()

    def _state(self, topic: str) -> str:
        status, answer = self.call("GET", f"{_rest(topic)}/internalStats")
        if status != 200:
            return str(status)
        stats: dict[str, Any] = json.loads(answer)
        cursors = {name: [cursor[key] for key in CURSOR_KEYS] for name, cursor in sorted(stats["cursors"].items())}
        return json.dumps([stats["numberOfEntries"], stats["totalSize"], cursors])


class Words:
    """Numbers a topic's ledgers in the order in which they are seen."""

    def __init__(self) -> None:
        self._ledgers: dict[str, int] = {}
        self._real: dict[int, int] = {}
        """What stands for LEDGER and TRANSACTION."""

    def with_real_ids(self, frame: bytes) -> bytes:
        """Returns the frame with the ids that the server gave, as varints of the same length."""
        for made_up, real in self._real.items():
            frame = frame.replace(varint(made_up), _padded(real, len(varint(made_up))))
        return frame

    def of(self, made: pb.BaseCommand) -> str:
        if made.type == pb.BaseCommand.SEND_RECEIPT and made.send_receipt.message_id.ledgerId < LEDGER_MAX:
            self._real.setdefault(LEDGER, made.send_receipt.message_id.ledgerId)
        elif made.type == pb.BaseCommand.NEW_TXN_RESPONSE and made.newTxnResponse.HasField("txnid_least_bits"):
            self._real[TRANSACTION] = made.newTxnResponse.txnid_least_bits
        return self.plain(str(made))

    def plain(self, text: str) -> str:
        for pattern, word in WORDS:
            text = pattern.sub(word, text)
        return LEDGERS.sub(self._ledger, text)

    def _ledger(self, found: re.Match[str]) -> str:
        digits = found[1] or found[2]
        is_real = 0 < int(digits) < LEDGER_MAX
        return f"ledger L{self._ledgers.setdefault(digits, len(self._ledgers))}" if is_real else found[0]


def _rest(topic: str) -> str:
    return f"/admin/v2/{topic.replace('://', '/')}"


def _padded(number: int, size: int) -> bytes:
    """Returns a varint of so many bytes."""
    return bytes((number >> 7 * at) & 0x7F | (0x80 if at < size - 1 else 0) for at in range(size))
