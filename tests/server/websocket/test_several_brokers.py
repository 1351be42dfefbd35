"""Sockets whose topics belong to several brokers of a cluster, which run in this process."""

import asyncio
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.websocket.json_message_rules import parse_message_id
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame
from tests.server.fakes import command
from tests.server.security.scene import KEY, PROVIDER, token
from tests.server.web.cluster_scene import NAMESPACE, Seat, cluster
from tests.server.websocket.receiving_scene import Receiver
from tests.server.wire_client import Client
from tests.waiting import until

RANGES = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff")
PARTITIONS = 6
TOPIC = f"persistent/{NAMESPACE}/p"
SECONDS_MAX = 20


@asynccontextmanager
async def spread(folder: Path, **more: Any) -> AsyncIterator[list[Seat]]:
    """Two brokers, which share the partitions of one topic."""
    async with cluster(folder, **more) as seats:
        first, second = seats
        await first.own(*RANGES[:2])
        await second.own(*RANGES[2:])
        assert (await first.call("PUT", f"/admin/v2/{TOPIC}/partitions", f"{PARTITIONS}")).status == 204
        assert 0 < len(owned_by(first)) < PARTITIONS
        yield seats


@pytest.fixture
async def seats(tmp_path: Path) -> AsyncIterator[list[Seat]]:
    async with spread(tmp_path) as made:
        yield made


def partition(index: int) -> TopicName:
    return TopicName.parse(TOPIC.replace("/", "://", 1)).partition(index)


def owned_by(seat: Seat) -> list[int]:
    return [index for index in range(PARTITIONS) if seat.broker.ownership.owns(partition(index))]


def owns_all(seat: Seat) -> bool:
    return len(owned_by(seat)) == PARTITIONS


@asynccontextmanager
async def opened(seat: Seat, path: str, role: str = "") -> AsyncIterator[Receiver]:
    headers = {"Authorization": f"Bearer {token(role).decode()}"} if role else None
    async with seat.session.ws_connect(f"{seat.url}/ws/{path}", headers=headers, max_msg_size=1 << 26) as inner:
        yield Receiver(inner)


async def refused(seat: Seat, path: str, role: str) -> tuple[int, str]:
    """Returns status and reason of the refusal of a socket."""
    asks = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    asks |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Authorization": f"Bearer {token(role).decode()}"}
    async with seat.session.get(f"{seat.url}/ws/{path}", headers=asks) as answer:
        return answer.status, (await answer.json())["reason"]


async def publish(producer: Receiver, first: int, stop: int, size: int = 0) -> list[int]:
    """Publishes numbers, all before the first answer is awaited. Returns the partition of each number."""
    for number in range(first, stop):
        body = str(number).encode() + b" " * size
        await producer.say({"payload": b64encode(body).decode(), "context": str(number)})
    partitions = []
    for number in range(first, stop):
        answer = await producer.heard()
        assert (answer["result"], answer["context"]) == ("ok", str(number)), answer
        partitions.append(parse_message_id(answer["messageId"]).partition)
    return partitions


async def consume(consumer: Receiver, wanted: set[int]) -> dict[int, list[int]]:
    """Acknowledges messages until all wanted numbers came. Returns the numbers of each partition without repetitions,
    in the order of their first copies."""
    found: dict[int, list[int]] = defaultdict(list)
    left = set(wanted)
    while left:
        message = await consumer.heard()
        number = int(b64decode(message["payload"]))
        numbers = found[parse_message_id(message["messageId"]).partition]
        if number not in numbers:
            numbers.append(number)
        left.discard(number)
        await consumer.ack(message)
    return found


async def acknowledge_all(consumer: Receiver) -> None:
    """Acknowledges messages that come again, because their acknowledgements were lost, until it is cancelled."""
    while True:
        await consumer.ack(await consumer.heard())


def in_turn(query: str = "") -> str:
    return f"v2/producer/{TOPIC}?messageRoutingMode=RoundRobinPartition{query}"


def subscriptions(seats: list[Seat]) -> list[Any]:
    topics = [seat.broker.service.loaded(partition(index)) for seat in seats for index in owned_by(seat)]
    return [each for topic in topics if topic is not None for each in topic.subscriptions.values()]


async def until_acknowledged(seats: list[Seat], name: str = "s") -> None:
    """Waits until everything of all partitions is acknowledged on a subscription."""
    await until(lambda: not any(each.cursor.backlog for each in subscriptions(seats) if each.name == name))


async def test_each_broker_serves_producers_consumers_and_readers_of_all_partitions(seats: list[Seat]) -> None:
    for seat, other in (seats, seats[::-1]):
        async with (
            opened(seat, in_turn()) as producer,
            opened(other, f"v2/consumer/{TOPIC}/{seat.broker.broker_id}") as consumer,
            opened(other, f"v2/reader/{TOPIC}") as reader,
        ):
            partitions = await publish(producer, 0, 60)
            assert set(partitions) == set(range(PARTITIONS))
            expected = {index: [n for n in range(60) if partitions[n] == index] for index in range(PARTITIONS)}
            assert await consume(consumer, set(range(60))) == expected
            assert await consume(reader, set(range(60))) == expected
            await until_acknowledged(seats, seat.broker.broker_id)


@pytest.mark.parametrize("name", ["t", "t2", "t3", "t4"])
async def test_a_topic_of_another_broker_is_served_without_a_redirect(seats: list[Seat], name: str) -> None:
    """Browsers follow no redirects of sockets, nor do aiohttp and, unless told to, Node's `ws`."""
    for seat in seats:
        async with opened(seat, f"v2/producer/persistent/{NAMESPACE}/{name}") as producer:
            await publish(producer, 0, 3)


async def test_topics_that_nobody_owned_get_an_owner(tmp_path: Path) -> None:
    async with cluster(tmp_path) as seats:
        first, second = seats
        first.placement.target = second.broker.addresses
        async with opened(second, f"v2/producer/persistent/{NAMESPACE}/t") as producer:
            await publish(producer, 0, 3)
        assert second.broker.service.loaded(TopicName.parse(f"persistent://{NAMESPACE}/t")) is not None


async def test_a_batch_for_a_partition_of_another_broker_is_stored_and_unpacked(seats: list[Seat]) -> None:
    first, _ = seats
    async with (
        opened(first, in_turn("&batchingEnabled=true")) as producer,
        opened(first, f"v2/consumer/{TOPIC}/s") as consumer,
    ):
        await publish(producer, 0, 200)
        await consume(consumer, set(range(200)))
        await until_acknowledged(seats)


async def test_partitions_move_to_another_broker_and_back_while_messages_are_under_way(seats: list[Seat]) -> None:
    """Each message is answered once and in order, and each partition keeps its order."""
    first, second = seats
    async with (
        opened(first, in_turn()) as producer,
        opened(first, f"v2/consumer/{TOPIC}/s?subscriptionInitialPosition=Earliest") as consumer,
        opened(first, f"v2/reader/{TOPIC}?messageId=earliest") as reader,
    ):
        partitions = await publish(producer, 0, 60)
        for number in (1, 2, 3):
            giving, taking = (first, second) if number % 2 else (second, first)
            first.placement.target = taking.broker.addresses
            publishing = asyncio.create_task(publish(producer, 60 * number, 60 * number + 60))
            await giving.broker.moves.unload_all()
            partitions += await publishing
            await until(partial(owns_all, taking))
        expected = {index: [n for n in range(240) if partitions[n] == index] for index in range(PARTITIONS)}
        assert await consume(consumer, set(range(240))) == expected
        assert await consume(reader, set(range(240))) == expected
        copies = asyncio.create_task(acknowledge_all(consumer))
        await until_acknowledged(seats)
        copies.cancel()


async def test_the_link_to_a_broker_breaks_and_everything_goes_on(seats: list[Seat]) -> None:
    first, second = seats
    async with opened(first, in_turn()) as producer, opened(first, f"v2/consumer/{TOPIC}/s") as consumer:
        await publish(producer, 0, 30)
        unacked = [await consumer.heard() for _ in range(30)]
        publishing = asyncio.create_task(publish(producer, 30, 60))
        for connection in list(second.traffic.connections):
            connection.abort()
        await publishing
        found = await consume(
            consumer, set(range(30, 60)) | {each for each in range(30) if is_at(unacked, each, second)}
        )
        again = {number for index in owned_by(second) for number in found[index] if number < 30}
        assert again == {number for number in range(30) if is_at(unacked, number, second)}


def is_at(messages: list[Any], number: int, seat: Seat) -> bool:
    message = next(each for each in messages if int(b64decode(each["payload"])) == number)
    return parse_message_id(message["messageId"]).partition in owned_by(seat)


async def test_messages_that_were_asked_for_again_come_once_and_in_order(seats: list[Seat]) -> None:
    """Messages that another broker had sent before it heard of the redelivery are dropped."""
    first, second = seats
    (index, *_) = owned_by(second)
    name = f"{TOPIC}-partition-{index},{TOPIC}-partition-{owned_by(first)[0]}".replace("persistent/", "persistent://")
    query = f"topics={name}&negativeAckRedeliveryDelay=0&receiverQueueSize=50"
    async with opened(first, f"v3/consumer/s?{query}") as consumer:
        async with opened(second, f"v2/producer/{TOPIC}-partition-{index}") as producer:
            await publish(producer, 0, 100)
        got = [await consumer.heard() for _ in range(50)]
        await consumer.nack(got[10])
        for message in got[:10]:
            await consumer.ack(message)
        again = [int(b64decode((await consumer.heard())["payload"])) for _ in range(40)]
        first_again = again.index(10)
        assert again[first_again:] == list(range(10, 50 - first_again))


async def test_a_message_in_chunks_is_put_together_and_acknowledged_with_all_chunks(seats: list[Seat]) -> None:
    first, second = seats
    name = f"{TOPIC}-partition-{owned_by(second)[0]}"
    async with opened(first, f"v2/consumer/{name}/s") as consumer:
        client = await Client.connect(int(second.broker.addresses.urls.broker.rpartition(":")[2]))
        client.say(command("PRODUCER", "producer", topic=name.replace("/", "://", 1), producer_id=1, request_id=1))
        assert (await client.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS
        for number, part in enumerate((b"one ", b"two ", b"three")):
            about: dict[str, Any] = {
                "uuid": "u",
                "num_chunks_from_msg": 3,
                "chunk_id": number,
                "total_chunk_msg_size": 13,
            }
            metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **about)
            send = pb.CommandSend(producer_id=1, sequence_id=number)
            client.writer.write(send_frame(send, build_payload(metadata, part)))
        assert await consumer.values(1, acks=True) == [b"one two three"]
        await until_acknowledged(seats)
        client.writer.close()


async def test_dead_letters_go_to_their_topic_at_another_broker(seats: list[Seat]) -> None:
    first, second = seats
    dead = next(
        name
        for name in (f"dead{n}" for n in range(50))
        if second.broker.ownership.owns(TopicName.parse(f"persistent://{NAMESPACE}/{name}"))
    )
    query = f"subscriptionType=Shared&negativeAckRedeliveryDelay=0&maxRedeliverCount=1&deadLetterTopic=persistent://{NAMESPACE}/{dead}"
    async with (
        opened(first, f"v2/consumer/{TOPIC}/s?{query}") as consumer,
        opened(second, f"v2/reader/persistent/{NAMESPACE}/{dead}?messageId=earliest") as letters,
        opened(first, in_turn()) as producer,
    ):
        await publish(producer, 0, 12)
        for _ in range(24):
            await consumer.nack(await consumer.heard())
        assert {int(value) for value in await letters.values(12, acks=True)} == set(range(12))
        await until_acknowledged(seats)


async def test_the_end_of_a_topic_is_known_when_all_its_partitions_have_ended(seats: list[Seat]) -> None:
    first, _ = seats
    async with opened(first, in_turn()) as producer, opened(first, f"v2/consumer/{TOPIC}/s") as consumer:
        await publish(producer, 0, 12)
        await consume(consumer, set(range(12)))
        assert await consumer.ask({"type": "isEndOfTopic"}) == {"endOfTopic": False}
        answer = await first.call("POST", f"/admin/v2/{TOPIC}/terminate/partitions", follow=True)
        assert answer.status == 200, answer
        async with asyncio.timeout(SECONDS_MAX):
            while await consumer.ask({"type": "isEndOfTopic"}) != {"endOfTopic": True}:
                pass


async def test_unsubscribing_deletes_the_subscription_at_all_brokers(seats: list[Seat]) -> None:
    async with opened(seats[0], f"v2/consumer/{TOPIC}/s") as consumer:
        await consumer.say({"type": "unsubscribe"})
        await until(lambda: not subscriptions(seats))


async def test_a_pattern_is_consumed_at_all_brokers_also_new_topics(seats: list[Seat]) -> None:
    first, _ = seats
    names = [f"persistent/{NAMESPACE}/t{number}" for number in range(8)]
    for name in names[:4]:
        await first.call("PUT", f"/admin/v2/{name}", follow=True)
    pattern = f"topicsPattern=persistent://{NAMESPACE}/t.*"
    async with opened(first, f"v3/consumer/s?{pattern}&subscriptionInitialPosition=Earliest") as consumer:
        for number, name in enumerate(names):
            async with opened(first, f"v2/producer/{name}") as producer:
                await publish(producer, number, number + 1)
        assert set((await consume(consumer, set(range(8))))[-1]) == set(range(8))


async def test_a_socket_that_reads_nothing_holds_up_only_itself(seats: list[Seat]) -> None:
    """The other broker sends what the buffers on the way hold, and no more. It goes on when the socket is read."""
    first, second = seats
    count, size = 300, 200_000
    async with opened(first, f"v2/consumer/{TOPIC}/slow") as slow, opened(first, f"v2/consumer/{TOPIC}/s") as quick:
        transport: Any = slow.inner._response.connection.transport  # type: ignore[union-attr]
        transport.pause_reading()
        async with opened(first, in_turn()) as producer:
            for number in range(0, count, 30):
                await publish(producer, number, number + 30, size)
        await consume(quick, set(range(count)))
        sent = [
            consumer.counters.bytes_out
            for each in subscriptions([second])
            if each.name == "slow"
            for consumer in each.consumers
        ]
        assert sum(sent) < count * size / 4
        transport.resume_reading()
        await consume(slow, set(range(count)))


@asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[list[Seat]]:
    """Alice may produce and bob may consume."""
    security = SecuritySettings(
        authentication_enabled=True,
        authorization_enabled=True,
        authentication_providers=(PROVIDER,),
        token_secret_key=f"data:,{KEY}",
        super_user_roles=("root",),
    )
    async with spread(folder, security=security, token=token("root").decode()) as seats:
        for role, action in (("alice", "produce"), ("bob", "consume")):
            await grant(seats[0], role, action)
        yield seats


async def grant(seat: Seat, role: str, action: str) -> None:
    path = f"/admin/v2/namespaces/{NAMESPACE}/permissions/{role}"
    assert (await seat.call("POST", path, f'["{action}"]')).status == 204


async def test_the_permission_of_the_peer_decides_and_not_that_of_the_brokers(tmp_path: Path) -> None:
    async with guarded(tmp_path) as seats:
        first, _ = seats
        for path, role in ((in_turn(), "bob"), (f"v2/consumer/{TOPIC}/s", "alice"), (f"v2/reader/{TOPIC}", "eve")):
            assert (await refused(first, path, role))[0] == 403
        async with (
            opened(first, in_turn(), "alice") as producer,
            opened(first, f"v2/consumer/{TOPIC}/s", "bob") as consumer,
        ):
            await publish(producer, 0, 12)
            await consume(consumer, set(range(12)))


async def test_a_permission_that_is_withdrawn_ends_sockets_of_other_brokers_topics(tmp_path: Path) -> None:
    async with guarded(tmp_path) as seats:
        first, second = seats
        topic = f"{TOPIC}-partition-{owned_by(second)[0]}"
        async with (
            opened(first, f"v2/producer/{topic}", "alice") as producer,
            opened(first, f"v2/consumer/{topic}/s", "bob") as consumer,
        ):
            ends = asyncio.gather(producer.end(), consumer.end())
            await grant(first, "alice", "consume")
            await grant(first, "bob", "produce")
            assert [code for code, _ in await ends] == [1008, 1011]


async def test_an_owner_that_refuses_this_brokers_own_credentials_is_not_a_refusal_of_the_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magnetar.server.websocket.producer_session.OPEN_SECONDS_MAX", 0.3)
    async with guarded(tmp_path) as seats:
        first, second = seats
        assert second.broker.security is not None
        assert second.broker.security.authorizer is not None
        second.broker.security.authorizer.superusers_changed(())
        status, reason = await refused(first, f"v2/producer/{TOPIC}-partition-{owned_by(second)[0]}", "alice")
        assert (status, "its owner refuses this broker" in reason) == (503, True)
