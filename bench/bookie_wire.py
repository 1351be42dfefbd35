"""`python -m bench.bookie_wire`: one bookie over loopback TCP, protocol v2: adds/s and CPU seconds per million.

The driver costs next to nothing: it keeps a window of adds unanswered, makes each add by writing its ids into one
prepared block, and counts answers by their bytes. With `--client v2|v3` our own channel sends the adds instead, in
groups. The bookie is a child process with fsync; its CPU time is read from /proc.
"""

import argparse
import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.process_stats import cpu_seconds, memory_mb
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.disks import DiskSpace
from magnetar.storage.bookie.wire_server import BookieWireServer
from magnetar.storage.ledger.wire_channel import WireChannel
from magnetar.storage.ledger.wire_config import WireConfig
from pulsar_proto.records.entry_digest import DigestType, EntryCodec, master_key
from pulsar_proto.wire import bookie_wire as v2

LEDGER_ID = 7
ANSWER_BYTES = 28
ENTRY_ID_OFFSET = 36
"""Where the entry id stands in a frame: behind length (4 bytes), header (4), key (20) and ledger id (8)."""
RECEIVE_BYTES = 1 << 18
WARM_UP_ADDS = 20_000
GROUPS_IN_WINDOW = 10
"""With our own channel, a window is split into this many groups. A broker hands over in one group about what one socket
read brings."""


async def serve(folder: str) -> None:
    """Runs the bookie in the child process: prints its port, and ends when its standard input is closed."""
    config = BookieConfig(journal_directories=(f"{folder}/journal",), ledger_directories=(f"{folder}/ledgers",))

    async def ledgers() -> set[int]:
        return {LEDGER_ID}

    bookie = await Bookie.open(config, bookie_id="bench", list_ledgers=ledgers)
    server = BookieWireServer(bookie, disk_space=DiskSpace(config.ledger_directories))
    print(await server.start("127.0.0.1", 0), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.close()
    await bookie.close()


class Driver:
    """Adds the entries 0, 1, ... of one ledger and keeps `window` of them unanswered."""

    def __init__(self, port: int, payload_bytes: int, window: int) -> None:
        key = master_key(b"")
        codec = EntryCodec(LEDGER_ID, DigestType.CRC32C, b"")
        frame = v2.add_request(key, codec.pack_run(0, -1, 0, [bytes(payload_bytes)])[0])
        self._frame_bytes = len(frame)
        self._block = bytearray(frame * window)
        self._window = window
        self._next_id = 0
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self, count: int) -> float:
        """Adds `count` entries and returns the seconds that this took. Raises AssertionError when an add fails."""
        began = time.perf_counter()
        end = self._next_id + count
        unanswered, partial = 0, b""
        while self._next_id < end or unanswered:
            room = min(self._window - unanswered, end - self._next_id)
            if room:
                self._send(room)
                unanswered += room
            data = partial + self._socket.recv(RECEIVE_BYTES)
            answers, left = divmod(len(data), ANSWER_BYTES)
            assert data.count(b"\0\0\0\x18\x02\x01\0\0\0\0\0\0") == answers or partial, "an add failed"
            partial = data[len(data) - left :] if left else b""
            unanswered -= answers
        return time.perf_counter() - began

    def _send(self, count: int) -> None:
        pack, step = struct.Struct(">q").pack_into, self._frame_bytes
        for index in range(count):
            pack(self._block, index * step + ENTRY_ID_OFFSET, self._next_id + index)
        self._next_id += count
        self._socket.sendall(memoryview(self._block)[: count * step])

    def close(self) -> None:
        self._socket.close()


class ChannelDriver:
    """Does what `Driver` does through our own channel: groups of entries, packed and with digests, as a ledger's writer
    sends them."""

    def __init__(self, port: int, payload_bytes: int, window: int, *, use_v2: bool) -> None:
        self._port = port
        self._group = [bytes(payload_bytes)] * max(1, window // GROUPS_IN_WINDOW)
        self._use_v2 = use_v2
        self._next_id = 0
        self._unanswered = 0
        self._end = 0
        self.cpu_seconds = 0.0

    def run(self, count: int) -> float:
        import uvloop

        self._end = self._next_id + count
        cpu, began = time.process_time(), time.perf_counter()
        uvloop.run(self._run())
        self.cpu_seconds = time.process_time() - cpu
        return time.perf_counter() - began

    async def _run(self) -> None:
        config = WireConfig(use_v2_wire_protocol=self._use_v2)
        self._channel = WireChannel("bench", lambda: ("127.0.0.1", self._port), config)
        self._codec, self._key = EntryCodec(LEDGER_ID, DigestType.CRC32C, b""), master_key(b"")
        self._all_answered = asyncio.get_running_loop().create_future()
        for _ in range(GROUPS_IN_WINDOW):
            self._send()
        await self._all_answered
        await self._channel.close()

    def _send(self) -> None:
        first, payloads = self._next_id, self._group
        if first >= self._end:
            return
        self._next_id += len(payloads)
        self._unanswered += 1
        entries = self._codec.pack_run(first, first - 1, 0, payloads)
        ids = range(first, first + len(payloads))
        self._channel.add_entries(LEDGER_ID, self._key, ids, entries, 0, self._done)

    def _done(self, ids: Sequence[int], rc: int) -> None:
        assert rc == 0, "an add failed"
        self._unanswered -= 1
        self._send()
        if not self._unanswered:
            self._all_answered.set_result(None)

    def close(self) -> None:
        """Has nothing to do, because the channel was closed at the end of the run."""


def measure(adds: int, payload_bytes: int, window: int, client: str | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("MAGNETAR_BENCH_DIR")) as folder:
        child = subprocess.Popen(
            [sys.executable, "-m", "bench.bookie_wire", "--serve", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            port = int(child.stdout.readline())
            driver: Driver | ChannelDriver = Driver(port, payload_bytes, window)
            if client:
                driver = ChannelDriver(port, payload_bytes, window, use_v2=client == "v2")
            driver.run(min(WARM_UP_ADDS, adds))
            cpu = cpu_seconds(child.pid)
            seconds = driver.run(adds)
            cpu = cpu_seconds(child.pid) - cpu
            memory = memory_mb(child.pid)
            driver.close()
        finally:
            child.stdin.close()
            child.wait(60)
    figures = {
        "adds_per_s": round(adds / seconds),
        "cpu_s_per_million": round(cpu / adds * 1e6, 2),
        "memory_mb": round(memory),
    }
    if isinstance(driver, ChannelDriver):
        figures["client_cpu_s_per_million"] = round(driver.cpu_seconds / adds * 1e6, 2)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.bookie_wire", description=__doc__)
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--adds", type=int, default=300_000)
    parser.add_argument("--bytes", type=int, default=1024, help="payload of an entry")
    parser.add_argument("--window", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--client", choices=("v2", "v3"), help="drive with our own channel")
    arguments = parser.parse_args()
    if arguments.serve:
        import uvloop

        uvloop.run(serve(arguments.serve))
        return 0
    for _ in range(arguments.runs):
        figures = measure(arguments.adds, arguments.bytes, arguments.window, arguments.client)
        print(json.dumps(figures), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
