"""Random commands over the wire to a whole server: it lives on, nobody else notices, and no error of ours is logged."""

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_proto.commands import parse_command, send_frame, simple_frame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from server.app import Standalone, StandaloneOptions
from server.loop_watch import LoopWatch, Stall
from tests.server.fakes import command
from tests.server.frame_strategies import CONNECT, FRAMES, PAYLOAD, SENSIBLE
from tests.server.loop_limit import CPU_LIMIT_SECONDS

PING = simple_frame(command("PING", "ping"))
SECONDS_MAX = 60

SENSIBLE_FRAMES = SENSIBLE.map(simple_frame)
SENDS = st.integers(0, 3).map(
    lambda number: send_frame(pb.CommandSend(producer_id=number, sequence_id=number), PAYLOAD)
)
CHOICES = st.sampled_from([SENSIBLE_FRAMES] * 6 + [FRAMES, SENDS]).flatmap(lambda frames: frames)


class Wire:
    """A blocking client."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), SECONDS_MAX)
        self.say(CONNECT)

    def say(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            return  # it was closed: `until` finds out

    def until(self, wanted: int) -> pb.BaseCommand | None:
        """The next command of that type; None when the server closed."""
        while True:
            head = self._read(8)
            if head is None:
                return None
            total, size = struct.unpack(">II", head)
            rest = self._read(total - 4)
            if rest is None:
                return None
            made = parse_command(rest[:size])
            if made.type == wanted:
                return made

    def _read(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                part = self._socket.recv(size - len(data))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return data

    def close(self) -> None:
        self._socket.close()


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """A server on a thread of its own; its port. No callback may hold its loop for long."""
    server = Standalone(StandaloneOptions(data_dir=folder, broker_port=0, web_port=0))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stalls: list[Stall] = []
    watch = LoopWatch(loop, CPU_LIMIT_SECONDS, stalls.append, by_cpu=True)
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(SECONDS_MAX)
        loop.call_soon_threadsafe(watch.start)
        yield int(server.broker_url.rpartition(":")[2])
        loop.call_soon_threadsafe(watch.close)
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(SECONDS_MAX)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert stalls == []


def test_a_whole_server_survives_anything_in_any_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), serving(tmp_path) as port:
        quiet = Wire(port)

        @settings(max_examples=100, deadline=None)
        @given(st.lists(CHOICES, min_size=5, max_size=30), st.booleans())
        def scenario(frames: list[bytes], wait: bool) -> None:
            wild = Wire(port)
            for frame in frames:
                wild.say(frame)
                if wait:
                    wild.say(PING)
                    if wild.until(pb.BaseCommand.PONG) is None:
                        break
            wild.say(PING)
            wild.until(pb.BaseCommand.PONG)
            wild.close()
            quiet.say(PING)
            assert quiet.until(pb.BaseCommand.PONG) is not None

        scenario()
        quiet.say(simple_frame(command("PRODUCER", "producer", topic="after", producer_id=1, request_id=1)))
        assert quiet.until(pb.BaseCommand.PRODUCER_SUCCESS) is not None
        quiet.say(send_frame(pb.CommandSend(producer_id=1, sequence_id=7), PAYLOAD))
        receipt = quiet.until(pb.BaseCommand.SEND_RECEIPT)
        assert receipt is not None
        assert receipt.send_receipt.sequence_id == 7
        quiet.close()
    assert [record.getMessage() for record in caplog.records] == []
