"""The client of brokers against a real server of ours."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.peers.peer_client import PeerClient
from magnetar.server.peers.peer_credentials import PeerCredentials
from magnetar.server.peers.peer_producer import NewMessage
from magnetar.server.peers.peer_snapshots import PeerSnapshotLogs
from magnetar.server.peers.read_window_rules import LATEST
from magnetar.server.topics.transactions.snapshot_table import SnapshotKind, SnapshotTable
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.served import Served, serving

TOPIC = TopicName.parse("persistent://public/default/peers")
SCHEMA = pb.Schema(name="", type=pb.Schema.Avro, schema_data=b'{"type":"record","name":"A","fields":[]}')


@asynccontextmanager
async def client_of(server: Served) -> AsyncIterator[PeerClient]:
    settings = PeerSettings()
    client = PeerClient(lambda: [f"pulsar://127.0.0.1:{server.port}"], None, settings, PeerCredentials(settings))
    try:
        yield client
    finally:
        await client.close()


async def test_messages_keys_tombstones_and_schemas_come_back_also_after_an_unload(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        async with client_of(server) as client:
            producer = client.producer(TOPIC, schema=SCHEMA)
            reader, latest = client.reader(TOPIC), client.reader(TOPIC, start=LATEST)
            await latest.attached(10)
            assert await reader.is_at_end()
            places = [await producer.send(NewMessage(b"%d" % number, f"k{number}")) for number in range(3)]
            assert producer.schema_version == bytes(8)
            server.get("/admin/v2/persistent/public/default/peers/unload", "PUT")
            began = time.monotonic()
            places.append(await producer.send(NewMessage(None, "k0", {"a": "b"}, event_time_ms=7)))
            assert time.monotonic() - began < 2
            got = [await reader.read() for _ in range(4)]
            assert [(each.place[:2], each.key, each.value) for each in got] == [
                (place[:2], f"k{number % 3}".encode(), None if number == 3 else b"%d" % number)
                for number, place in enumerate(places)
            ]
            assert (got[3].properties, got[3].event_time_ms, got[3].schema_version) == ({"a": "b"}, 7, bytes(8))
            assert [(await latest.read()).place for _ in range(4)] == [each.place for each in got]
            assert await reader.is_at_end()


async def test_a_compacted_topic_is_read_to_its_end(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        async with client_of(server) as client:
            producer = client.producer(TOPIC)
            for number in range(20):
                await producer.send(NewMessage(b"%d" % number, f"k{number % 4}"))
            await producer.send(NewMessage(None, "k3"))
            path = "/admin/v2/persistent/public/default/peers/compaction"
            server.get(path, "PUT")
            while server.json(path)["status"] != "SUCCESS":
                pass
            reader = client.reader(TOPIC, read_compacted=True)
            got = {}
            while not await reader.is_at_end():
                message = await reader.read(10)
                got[message.key] = message.value
            assert got == {b"k0": b"16", b"k1": b"17", b"k2": b"18"}


async def test_partitions_are_told_and_read_singly(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.get("/admin/v2/persistent/public/default/parted/partitions", "PUT", b"3")
        parted = TopicName.parse("persistent://public/default/parted")
        async with client_of(server) as client:
            assert await client.partitions(parted) == 3
            with pytest.raises(TopicNotFound):
                await client.partitions(TOPIC, creates_topic=False)
            await client.producer(parted.partition(2)).send(NewMessage(b"2"))
            assert await client.reader(parted.partition(0)).is_at_end()
            assert (await client.reader(parted.partition(2)).read(10)).value == b"2"


@pytest.mark.parametrize("partitions", [0, 2])
async def test_two_brokers_share_a_table_of_snapshots(tmp_path: Path, partitions: int) -> None:
    name = TopicName.parse("persistent://public/default/__transaction_buffer_snapshot")
    with serving(tmp_path) as server:
        if partitions:
            server.get(f"/admin/v2/persistent/public/default/{name.local_name}/partitions", "PUT", b"%d" % partitions)
        async with client_of(server) as one, client_of(server) as other:
            first, second = (
                SnapshotTable(name, SnapshotKind.WHOLE, PeerSnapshotLogs(client)) for client in (one, other)
            )
            assert await first.get("a") is None
            for round_ in range(3):
                for number in range(4):
                    await first.put(f"t{number}", b"%d of round %d" % (number, round_))
                await first.put(f"t{round_}", None)
                for table in (first, second):
                    assert [await table.get(f"t{number}") for number in range(4)] == [
                        None if number == round_ else b"%d of round %d" % (number, round_) for number in range(4)
                    ]
            local = f"{name.local_name}-partition-0" if partitions else name.local_name
            server.get(f"/admin/v2/persistent/public/default/{local}/unload", "PUT")
            await second.put("t0", b"after the unload")
            assert await first.get("t0") == b"after the unload"
            schemas = server.json(f"/admin/v2/schemas/public/default/{name.local_name}/schema")
            assert schemas["data"].encode() == SnapshotKind.WHOLE.schema.data
