"""SIGKILL at any moment: what the server acknowledged is there after the restart, sessions go on, and no number comes
twice."""

import asyncio
import contextlib
import random
import struct
from pathlib import Path

import pytest

from tests.metadata.zookeeper.own_server import OwnServer, running
from tests.metadata.zookeeper.zookeeper_server import free_ports
from tests.metadata.zookeeper_server import raw_client as raw
from tests.metadata.zookeeper_server.raw_client import RawClient

pytestmark = pytest.mark.process

ROUNDS = 6
PIPELINE = 40
STAT = struct.Struct(">qqqqiiiqiiq")


class Writer:
    """One session that creates, overwrites and deletes records of its own, and remembers each acknowledged change."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.root = f"/{name}"
        self._rng = rng
        self.client: RawClient | None = None
        self.acknowledged: dict[str, bytes | None] = {}
        """The newest acknowledged content of each record; None stands for a deleted one."""
        self.unsure: dict[str, list[bytes | None]] = {}
        """What may have been done to a record since then, as the answer did not come."""
        self.zxid = 0
        self.sequences: set[str] = set()

    async def begin(self, port: int) -> None:
        self.client = await RawClient.connect(port)
        assert (await self.client.call(raw.CREATE, raw.create(self.root))).error == 0
        assert (await self.client.call(raw.CREATE, raw.create(f"{self.root}/alive", b"", 1))).error == 0

    async def write(self) -> None:
        """Writes until the server is gone."""
        client = self.client
        assert client is not None
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                asked = [self._ask(client) for _ in range(self._rng.randrange(1, PIPELINE))]
                for xid, path, content in asked:
                    answer = (await client.until(xid))[-1]
                    assert answer.zxid >= self.zxid, "the number of the last transaction went back"
                    self.zxid = answer.zxid
                    self._note(answer, path, content)

    def _ask(self, client: RawClient) -> tuple[int, str, bytes | None]:
        kind, path = self._rng.random(), f"{self.root}/{self._rng.randrange(30)}"
        if kind < 0.2:
            return client.ask(raw.CREATE, raw.create(f"{self.root}/n-", b"", 2)), "", None
        content = None if kind < 0.4 else self._rng.randbytes(self._rng.randrange(300))
        self.unsure.setdefault(path, []).append(content)
        if content is None:
            return client.ask(raw.DELETE, raw.text(path) + raw.number(-1)), path, None
        if kind < 0.7:
            return client.ask(raw.CREATE, raw.create(path, content)), path, content
        return client.ask(raw.SET_DATA, raw.text(path) + raw.buffer(content) + raw.number(-1)), path, content

    def _note(self, answer: raw.Frame, path: str, content: bytes | None) -> None:
        if not path:
            sequence = answer.fields[4:].decode()
            assert sequence not in self.sequences, "a sequential number came twice"
            self.sequences.add(sequence)
            return
        self.unsure[path].remove(content)
        if answer.error == 0:
            self.acknowledged[path] = content
        else:
            assert answer.error in (-101, -110)

    async def judge(self, port: int) -> None:
        """Goes on with the session and compares what is there with what was acknowledged."""
        former, self.client = self.client, None
        assert former is not None
        client = self.client = await RawClient.connect(port, former=former)
        assert client.session_id == former.session_id, "the session is over"
        stat = STAT.unpack((await client.call(raw.EXISTS, raw.watched(f"{self.root}/alive"))).fields)
        assert stat[7] == client.session_id
        for path in {*self.acknowledged, *self.unsure}:
            answer = await client.call(raw.GET_DATA, raw.watched(path))
            length = struct.unpack_from(">i", answer.fields)[0] if answer.error == 0 else -1
            found = answer.fields[4 : 4 + length] if answer.error == 0 else None
            possible = [self.acknowledged.get(path), *self.unsure.get(path, [])]
            assert found in possible, path
            self.acknowledged[path] = found
        self.unsure.clear()
        names = set(await children(client, self.root))
        assert {path.rpartition("/")[2] for path in self.sequences} <= names


async def children(client: RawClient, path: str) -> list[str]:
    fields = (await client.call(raw.GET_CHILDREN, raw.watched(path))).fields
    (count,) = struct.unpack_from(">i", fields)
    names, offset = [], 4
    for _ in range(count):
        (length,) = struct.unpack_from(">i", fields, offset)
        names.append(fields[offset + 4 : offset + 4 + length].decode())
        offset += 4 + length
    return names


async def kill_rounds(server: OwnServer, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    writers = [Writer(f"w{number}", random.Random(rng.random())) for number in range(4)]
    for writer in writers:
        await writer.begin(server.port)
    for _ in range(rounds):
        tasks = [asyncio.ensure_future(writer.write()) for writer in writers]
        asyncio.get_running_loop().call_later(rng.uniform(0.02, 0.4), server.kill)
        await asyncio.gather(*tasks)
        server.launch()
        await server.ready()
        for writer in writers:
            await writer.judge(server.port)


async def test_nothing_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    server = OwnServer(tmp_path / "zookeeper", free_ports(1)[0], "maxSessionTimeout=60000\n")
    server.launch()
    try:
        await server.ready()
        await kill_rounds(server, ROUNDS, seed=1)
    finally:
        server.kill()


def test_an_orderly_stop_keeps_sessions_and_their_records(tmp_path: Path) -> None:
    with running(tmp_path, OwnServer) as server:

        async def before() -> RawClient:
            client = await RawClient.connect(server.port)
            await client.call(raw.CREATE, raw.create("/mine", b"x", 1))
            return client

        async def after(former: RawClient) -> None:
            client = await RawClient.connect(server.port, former=former)
            assert client.session_id == former.session_id
            assert (await client.call(raw.EXISTS, raw.watched("/mine"))).error == 0

        former = asyncio.run(before())
        assert server.terminate() == 0
        assert "Traceback" not in server.log()
        server.launch()
        asyncio.run(server.ready())
        asyncio.run(after(former))
