"""Whether a broker is used, which decides when Python may look at all objects for garbage."""

from pathlib import Path

from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import command
from tests.server.wire_client import Client, flow, message, send

TOPICS = ["persistent://public/default/t", "non-persistent://public/default/t"]


async def test_every_message_is_a_use_and_a_ping_is_none(tmp_path: Path) -> None:
    server = Standalone(StandaloneOptions(tmp_path, broker_port=0, web_port=0))
    await server.start()
    try:
        client = await Client.connect(int(server.broker_url.rpartition(":")[2]))
        for number, topic in enumerate(TOPICS):
            client.say(
                command("SUBSCRIBE", "subscribe", topic=topic, subscription="s", subType=1, consumer_id=1, request_id=0)
            )
            assert (await client.answer()).type == pb.BaseCommand.SUCCESS
            client.say(command("PRODUCER", "producer", topic=topic, producer_id=1, request_id=1))
            assert (await client.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS
            uses = server.uses()
            client.say(command("PING", "ping"))
            assert (await client.answer()).type == pb.BaseCommand.PONG
            assert server.uses() == uses
            client.writer.write(send(number))
            assert (await client.answer()).type == pb.BaseCommand.SEND_RECEIPT
            published = server.uses()
            assert published > uses
            client.say(flow(1))
            if number == 0:  # a non-persistent topic drops what comes while there are no permits
                await message(client)
                assert server.uses() > published
            client.say(command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=2))
            client.say(command("CLOSE_CONSUMER", "close_consumer", consumer_id=1, request_id=3))
            for _ in range(2):
                assert (await client.answer()).type == pb.BaseCommand.SUCCESS
        client.writer.close()
    finally:
        await server.stop()
