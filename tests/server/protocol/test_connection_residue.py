"""Nothing refers to a client's connection that has ended, not even the connection itself by a cycle.

The garbage collector is off, so that an object dies when its last reference goes, or never. A server that waits for the
collector holds what its clients sent for as long as it likes.
"""

import asyncio
import itertools
import ssl
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from compat_tests.certificates import Authority
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from magnetar.server.protocol.connection import Connection
from magnetar.server.web.http_connection import HttpConnection
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import simple_frame
from pulsar_proto.wire.framing import FRAME_PADDING, MAX_MESSAGE_SIZE
from tests.reference_counts import all_dead, collector_off
from tests.server.fakes import command
from tests.server.security.scene import KEY, PROVIDER, connect_command, token
from tests.server.wire_client import Client, flow, message, send

VISITS = 5

LOOPS = pytest.mark.parametrize("loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


class Site:
    """A server with all its ports, and what a client needs to connect to them."""

    def __init__(self, server: Standalone, trust: ssl.SSLContext) -> None:
        self.trust = trust
        self.port, self.tls_port = (_port_of(url) for url in (server.broker_url, server.urls.broker_tls))
        self.web_port, self.web_tls_port = (_port_of(url) for url in (server.web_url, server.urls.web_tls))

    async def open(self, port: int, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("localhost", port, **options)

    async def client(self, role: str = "root", **options: Any) -> Client:
        client = Client(*await self.open(options.pop("port", self.port), **options))
        client.say(connect_command(token(role)))
        assert (await client.answer()).type == pb.BaseCommand.CONNECTED
        return client


def _port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


NUMBERS = itertools.count()

Visit = Callable[[Site], Awaitable[asyncio.StreamWriter]]
"""What one client does. The test closes the returned connection, unless the server has done so."""


async def announces_a_long_frame(site: Site) -> asyncio.StreamWriter:
    _, writer = await site.open(site.port)
    writer.write(struct.pack(">II", MAX_MESSAGE_SIZE + FRAME_PADDING - 4, 100))
    await writer.drain()
    return writer


async def says_nothing(site: Site) -> asyncio.StreamWriter:
    return (await site.open(site.port))[1]


async def says_nonsense(site: Site) -> asyncio.StreamWriter:
    reader, writer = await site.open(site.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await reader.read()
    return writer


async def connects(site: Site) -> asyncio.StreamWriter:
    return (await site.client()).writer


async def is_refused(site: Site) -> asyncio.StreamWriter:
    reader, writer = await site.open(site.port)
    writer.write(simple_frame(connect_command(b"no token")))
    assert b"Failed to authenticate" in await reader.read()
    return writer


async def produces(site: Site) -> asyncio.StreamWriter:
    client = await site.client()
    client.say(command("PRODUCER", "producer", topic=TOPIC, producer_id=1, request_id=1))
    assert (await client.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS
    client.writer.write(send(0))
    assert (await client.answer()).type == pb.BaseCommand.SEND_RECEIPT
    return client.writer


async def consumes(site: Site, sub_type: int = pb.CommandSubscribe.Shared) -> asyncio.StreamWriter:
    client = await site.client()
    client.say(
        command(
            "SUBSCRIBE",
            "subscribe",
            topic=TOPIC,
            subscription=f"s{next(NUMBERS)}",
            subType=sub_type,
            initialPosition=1,
            consumer_id=1,
            request_id=1,
        )
    )
    assert (await client.answer()).type == pb.BaseCommand.SUCCESS
    client.say(flow(1))
    await message(client)
    return client.writer


async def consumes_by_key(site: Site) -> asyncio.StreamWriter:
    return await consumes(site, pb.CommandSubscribe.Key_Shared)


async def looks_up_what_is_not_there(site: Site) -> asyncio.StreamWriter:
    client = await site.client()
    client.say(command("LOOKUP", "lookupTopic", topic="persistent://no/where/t", request_id=1))
    assert (await client.answer()).lookupTopicResponse.HasField("error")
    return client.writer


async def connects_by_tls(site: Site) -> asyncio.StreamWriter:
    return (await site.client(port=site.tls_port, ssl=site.trust)).writer


async def leaves_a_tls_handshake(site: Site) -> asyncio.StreamWriter:
    _, writer = await site.open(site.tls_port)
    writer.write(b"\x16\x03\x01\x02\x00\x01\x00")
    await writer.drain()
    return writer


async def asks_the_web_port_nothing(site: Site) -> asyncio.StreamWriter:
    return (await site.open(site.web_port))[1]


async def sends_half_a_head(site: Site) -> asyncio.StreamWriter:
    return await _says_to_the_web_port(site, b"GET /admin")


async def leaves_inside_a_body(site: Site) -> asyncio.StreamWriter:
    return await _says_to_the_web_port(site, b"PUT /admin/v2/tenants/x HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{")


async def _says_to_the_web_port(site: Site, said: bytes) -> asyncio.StreamWriter:
    _, writer = await site.open(site.web_port)
    writer.write(said)
    await writer.drain()
    return writer


async def says_nonsense_to_the_web_port(site: Site) -> asyncio.StreamWriter:
    reader, writer = await site.open(site.web_port)
    writer.write(b"\x00\x01\r\n\r\n")
    await reader.read()
    return writer


async def calls(site: Site) -> asyncio.StreamWriter:
    return await _calls(*await site.open(site.web_port))


async def calls_by_tls(site: Site) -> asyncio.StreamWriter:
    return await _calls(*await site.open(site.web_tls_port, ssl=site.trust))


async def _calls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> asyncio.StreamWriter:
    writer.write(b"GET /admin/v2/clusters HTTP/1.1\r\nHost: here\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    return writer


TOPIC = "persistent://public/default/t"

BROKER_VISITS: list[Visit] = [
    announces_a_long_frame,
    says_nothing,
    says_nonsense,
    connects,
    is_refused,
    produces,
    consumes,
    consumes_by_key,
    looks_up_what_is_not_there,
    connects_by_tls,
    leaves_a_tls_handshake,
]

WEB_VISITS: list[Visit] = [
    asks_the_web_port_nothing,
    sends_half_a_head,
    leaves_inside_a_body,
    says_nonsense_to_the_web_port,
    calls,
    calls_by_tls,
]


@LOOPS
def test_nothing_is_left_of_an_ended_connection(tmp_path: Path, loop: Any) -> None:
    async def scenario() -> None:
        authority = Authority(tmp_path)
        certificate = authority.issue("server")
        settings = {
            "authenticationEnabled": "true",
            "authenticationProviders": PROVIDER,
            "tokenSecretKey": f"data:,{KEY}",
            "authorizationEnabled": "true",
            "superUserRoles": "root",
            "tlsCertificateFilePath": str(certificate.certificate),
            "tlsKeyFilePath": str(certificate.key),
        }
        options = StandaloneOptions(
            tmp_path / "data", broker_port=0, broker_port_tls=0, web_port=0, web_port_tls=0, overrides=settings
        )
        server = Standalone(options)
        await server.start()
        try:
            site = Site(server, ssl.create_default_context(cafile=authority.path))
            (await calls(site)).close()  # the first client makes the server load aiohttp, which is not to be measured
            for visit in BROKER_VISITS + WEB_VISITS:
                if visit is leaves_a_tls_handshake and loop is None:
                    continue  # asyncio of Python 3.11 keeps connections whose handshake failed (gh-109534)
                for writer in [await visit(site) for _ in range(VISITS)]:
                    writer.close()
                await all_dead(Connection, HttpConnection)
        finally:
            await server.stop()

    with collector_off(), asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())
