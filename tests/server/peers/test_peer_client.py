"""Producers and readers against scripted brokers: what is sent arrives once and in order, whatever breaks."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.peers import attachment
from magnetar.server.peers.peer_client import PeerClient
from magnetar.server.peers.peer_credentials import PeerCredentials
from magnetar.server.peers.peer_errors import PeerTimeoutError, PeerUnreachableError
from magnetar.server.peers.peer_producer import NewMessage
from magnetar.server.peers.peer_reader import PeerReader
from magnetar.server.peers.read_window_rules import LATEST, MessagePlace
from pulsar_proto.errors import NotAllowed, TopicTerminated
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import compress
from pulsar_proto.records.payload import body, build_batch, build_payload
from pulsar_proto.wire.commands import simple_frame
from tests.rounds import rounds
from tests.server.peers.fake_cluster import LEDGER, FakeCluster, Mischief
from tests.waiting import until

TOPIC = TopicName.parse("persistent://t/n/topic")


@asynccontextmanager
async def running(
    seed: int, mischief: Mischief | None = None, **settings: object
) -> AsyncIterator[tuple[FakeCluster, PeerClient]]:
    cluster = await FakeCluster(random.Random(seed), mischief).start()
    made = PeerSettings(**settings)  # type: ignore[arg-type]
    client = PeerClient(
        lambda: [cluster.brokers[1].url, cluster.brokers[2].url],
        None,
        made,
        PeerCredentials(made),
        rng=random.Random(seed),
    )
    try:
        yield cluster, client
    finally:
        await client.close()
        await cluster.stop()


def stored(cluster: FakeCluster) -> list[bytes]:
    return [body(entry) for entry in cluster.log.entries]


def plain(number: int) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1, partition_key=f"k{number}")
    return build_payload(metadata, b"%d" % number)


def batch(numbers: range, codec: pb.CompressionType.ValueType = pb.NONE, without: tuple[int, ...] = ()) -> bytes:
    singles = [
        (pb.SingleMessageMetadata(payload_size=0, compacted_out=number in without), b"%d" % number)
        for number in numbers
    ]
    content = build_batch(singles)
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=numbers[0], publish_time=1, num_messages_in_batch=len(numbers)
    )
    metadata.compression, metadata.uncompressed_size = codec, len(content)
    return build_payload(metadata, compress(codec, content))


async def read_all(reader: PeerReader) -> list[bytes]:
    values = []
    while not await reader.is_at_end():
        values.append((await reader.read()).value or b"")
    return values


EVERYTHING = Mischief(
    redirect=0.3,
    not_ready=0.2,
    cut_before_receipt=0.05,
    cut_before_storing=0.05,
    send_error=0.03,
    move_after_send=0.05,
    cut_after_message=0.05,
    close_at_once=0.1,
)


@pytest.mark.parametrize("seed", range(rounds(8)))
async def test_messages_arrive_once_and_in_order_whatever_breaks(seed: int) -> None:
    async with running(seed, EVERYTHING) as (cluster, client):
        producer = client.producer(TOPIC, name="mine")
        reader = client.reader(TOPIC)
        sent = [b"%d" % number for number in range(60)]
        got: list[bytes] = []

        async def read() -> None:
            while len(got) < len(sent):
                got.append((await reader.read()).value or b"")

        async with asyncio.timeout(50):
            async with asyncio.TaskGroup() as group:
                group.create_task(read())
                for value in sent:
                    group.create_task(producer.send(NewMessage(value)))
            assert stored(cluster) == sent
            assert got == sent
            assert await reader.is_at_end()


async def test_the_first_attempt_after_a_move_is_made_at_once() -> None:
    async with running(1) as (cluster, client):
        producer = client.producer(TOPIC)
        await producer.send(NewMessage(b"1"))
        loop = asyncio.get_running_loop()
        before, lookups = loop.time(), cluster.lookups
        cluster.move()
        await producer.send(NewMessage(b"2"))
        assert loop.time() - before < 0.5
        assert cluster.lookups == lookups + 1
        assert stored(cluster) == [b"1", b"2"]


async def test_a_killed_owner_is_left_as_soon_as_there_is_another() -> None:
    async with running(2) as (cluster, client):
        reader = client.reader(TOPIC)
        cluster.log.add(plain(1))
        assert (await reader.read()).value == b"1"
        await cluster.owner.stop()
        cluster.log.add(plain(2))
        cluster.owner = cluster.brokers[2]
        client.nudge("t/n")
        assert (await reader.read(5)).value == b"2"


async def test_a_nudge_moves_a_reader_whose_owner_does_not_answer_any_more() -> None:
    """A broker that was paused keeps its connections, and tells nobody that it lost its bundles."""
    async with running(3) as (cluster, client):
        reader = client.reader(TOPIC)
        await reader.attached(5)
        silent = cluster.owner
        silent.close_clients = lambda: None  # type: ignore[method-assign]
        for session in silent.sessions:
            session.say = lambda data: None  # type: ignore[method-assign]
        cluster.owner = cluster.brokers[1]
        client.nudge()
        cluster.log.add(plain(5))
        assert (await reader.read(5)).value == b"5"


async def test_batches_compression_and_compacted_messages_are_read() -> None:
    async with running(4) as (cluster, client):
        for codec in (pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY):
            start = len(cluster.log.entries) * 10
            cluster.log.add(batch(range(start, start + 10), codec, without=(start + 3,)))
        damaged = bytearray(batch(range(50, 60)))
        damaged[-1] ^= 1
        cluster.log.add(bytes(damaged))
        cluster.log.add(plain(60))
        reader = client.reader(TOPIC)
        got = [int(value) for value in await read_all(reader)]
        assert got == [number for number in range(50) if number % 10 != 3] + [60]


async def test_a_reader_begins_where_it_is_told() -> None:
    async with running(5) as (cluster, client):
        for number in range(3):
            cluster.log.add(batch(range(number * 4, number * 4 + 4)))
        inside = client.reader(TOPIC, start=MessagePlace(LEDGER, 1, 1))
        behind = client.reader(TOPIC, start=MessagePlace(LEDGER, 1))
        latest = client.reader(TOPIC, start=LATEST)
        assert await read_all(inside) == [b"%d" % number for number in range(6, 12)]
        assert await read_all(behind) == [b"%d" % number for number in range(8, 12)]
        assert await read_all(latest) == []
        cluster.move()
        cluster.log.add(plain(99))
        assert (await latest.read(5)).value == b"99"


async def test_permits_bound_what_is_received_and_are_renewed() -> None:
    async with running(6) as (cluster, client):
        for number in range(2500):
            cluster.log.add(plain(number))
        reader = client.reader(TOPIC)
        assert (await reader.read()).key == b"k0"
        assert [int((await reader.read()).value or b"") for _ in range(2499)] == list(range(1, 2500))


async def test_an_empty_topic_is_at_its_end() -> None:
    async with running(7) as (_cluster, client):
        assert await client.reader(TOPIC).is_at_end()


async def test_a_refusal_for_good_is_told_to_everybody_who_waits() -> None:
    async with running(8) as (cluster, client):
        cluster.refusal = pb.TopicTerminatedError
        producer, reader = client.producer(TOPIC), client.reader(TOPIC)
        sending = [asyncio.create_task(producer.send(NewMessage(b"1"))) for _ in range(3)]
        reading = asyncio.create_task(reader.read())
        for task in (*sending, reading):
            with pytest.raises(TopicTerminated, match="for good"):
                await asyncio.wait_for(task, 5)
        lookups = cluster.lookups
        client.nudge()
        with pytest.raises(TopicTerminated):
            await producer.send(NewMessage(b"2"))
        assert cluster.lookups == lookups


async def test_a_message_that_is_refused_for_good_fails_and_the_next_ones_are_stored() -> None:
    async with running(15) as (cluster, client):
        producer = client.producer(TOPIC)
        await producer.attached(5)
        cluster.refused_sends = {1}
        sending = [asyncio.create_task(producer.send(NewMessage(b"%d" % number))) for number in range(3)]
        done = await asyncio.gather(*sending, return_exceptions=True)
        assert isinstance(done[1], NotAllowed)
        assert stored(cluster) == [b"0", b"2"]
        assert cluster.lookups == 1


async def test_a_message_without_receipt_times_out_and_the_next_one_is_stored() -> None:
    async with running(9, Mischief(not_ready=1.0)) as (cluster, client):
        producer = client.producer(TOPIC)
        with pytest.raises(PeerTimeoutError):
            await producer.send(NewMessage(b"1"), deadline_seconds=0.2)
        cluster.mischief.not_ready = 0.0
        await producer.send(NewMessage(b"2"))
        assert stored(cluster) == [b"2"]


async def test_a_cancelled_sender_does_not_disturb_the_others() -> None:
    async with running(10, Mischief(not_ready=1.0)) as (cluster, client):
        producer = client.producer(TOPIC)
        tasks = [asyncio.create_task(producer.send(NewMessage(b"%d" % number))) for number in range(5)]
        await asyncio.wait(tasks, timeout=0.05)
        tasks[0].cancel()
        tasks[3].cancel()
        cluster.mischief.not_ready = 0.0
        await asyncio.gather(*tasks, return_exceptions=True)
        assert stored(cluster) == [b"1", b"2", b"4"]


async def test_one_connection_serves_all_producers_and_readers_of_a_broker() -> None:
    async with running(11) as (cluster, client):
        producers = [client.producer(TOPIC) for _ in range(5)]
        readers = [client.reader(TOPIC) for _ in range(5)]
        for each in (*producers, *readers):
            await each.attached(5)
        assert len(cluster.connects) == 2  # one to the broker that is asked for lookups, one to the owner


async def test_credentials_are_shown_at_known_addresses_only() -> None:
    async with running(
        12, broker_client_authentication_plugin="token", broker_client_authentication_parameters="token:abc"
    ) as (cluster, client):
        await client.producer(TOPIC).attached(5)
        first, owner = cluster.connects
        assert (first.auth_method_name, first.auth_data) == ("token", b"abc")
        assert not owner.HasField("auth_data")


async def test_a_challenge_is_answered_with_the_newest_credentials(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    async with running(
        14, broker_client_authentication_plugin="token", broker_client_authentication_parameters=f"file:{file}"
    ) as (cluster, client):
        asker = cluster.brokers[1]
        await client.lookup(TOPIC)
        assert cluster.connects[0].auth_data == b"old"
        file.write_text("new\n")
        challenge = pb.CommandAuthChallenge(challenge=pb.AuthData(auth_method_name="token"), protocol_version=21)
        for session in asker.sessions:
            session.say(simple_frame(pb.BaseCommand(type=pb.BaseCommand.AUTH_CHALLENGE, authChallenge=challenge)))
        await until(lambda: len(cluster.responses) == 1)
        assert cluster.responses[0].response == pb.AuthData(auth_method_name="token", auth_data=b"new")
        await client.lookup(TOPIC)
        assert len(cluster.connects) == 1


async def test_what_a_broker_makes_too_late_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachment, "ATTACH_SECONDS", 0.2)
    async with running(16) as (cluster, client):
        cluster.is_slow = True
        reader, producer = client.reader(TOPIC), client.producer(TOPIC)
        await until(lambda: cluster.closes >= 2)
        cluster.is_slow = False
        cluster.log.add(plain(1))
        assert (await reader.read(10)).value == b"1"
        await producer.send(NewMessage(b"2"))


async def test_closing_ends_what_waits() -> None:
    async with running(13, Mischief(not_ready=1.0)) as (_cluster, client):
        reading = asyncio.create_task(client.reader(TOPIC).read())
        sending = asyncio.create_task(client.producer(TOPIC).send(NewMessage(b"1")))
        await asyncio.wait([reading, sending], timeout=0.05)
        await client.close()
        for task in (reading, sending):
            with pytest.raises(PeerUnreachableError):
                await asyncio.wait_for(task, 5)
        with pytest.raises(PeerUnreachableError):
            client.reader(TOPIC)
