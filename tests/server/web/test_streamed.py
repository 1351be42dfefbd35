"""Answers that are made while they are sent."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from magnetar.server.web import responses
from magnetar.server.web.calls import Call, Route, Streamed
from magnetar.server.web.http_listener import WebListener
from magnetar.server.web.needs import EVERYBODY
from magnetar.server.web.places import Place
from tests.server.fakes import make_broker


@asynccontextmanager
async def streaming(parts: AsyncGenerator[bytes, None]) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Yields a client, and the URL of a call that answers with these parts."""

    async def answer(call: Call) -> Streamed:
        return Streamed(parts)

    routes = (Route("POST", "/streamed", answer, EVERYBODY, Place.ANY_BROKER),)
    listener = WebListener(make_broker(), lambda: routes)
    url = f"http://127.0.0.1:{await listener.start('127.0.0.1', 0)}/streamed"
    async with aiohttp.ClientSession() as session:
        yield session, url
    await listener.close()


@pytest.mark.parametrize("fault", [ConnectionResetError, ZeroDivisionError])
async def test_an_answer_whose_making_fails_breaks_off(fault: type[Exception]) -> None:
    async def parts() -> AsyncGenerator[bytes, None]:
        yield b"first"
        raise fault

    async with streaming(parts()) as (session, url), session.post(url) as response:
        assert response.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_a_client_that_leaves_ends_the_making() -> None:
    ended = asyncio.Event()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x" * 100_000
        finally:
            ended.set()

    async with streaming(parts()) as (session, url):
        async with session.post(url) as response:
            assert len(await response.content.readexactly(500_000)) == 500_000
            response.close()
        await asyncio.wait_for(ended.wait(), 60)


async def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "ANSWER_SECONDS_MAX", 0.05)
    ended = asyncio.Event()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x" * 100_000
        finally:
            ended.set()

    async with streaming(parts()) as (session, url), session.post(url):
        await asyncio.wait_for(ended.wait(), 60)
