"""The service of sockets is loaded once, when the first socket is asked for, and ends with the port."""

import asyncio
import threading
from typing import Any, cast
from unittest.mock import Mock

import pytest
from aiohttp import web

from magnetar.server.web.upgrades import LateUpgrades, OpenedSocket


class Service:
    """Takes the part of the WebSocket service."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.is_closed = False

    def takes(self, raw_path: str) -> bool:
        raise AssertionError("nobody asks the service itself")

    async def open(self, request: web.BaseRequest) -> OpenedSocket:
        self.requests.append(request)
        return cast(OpenedSocket, Mock())

    def close(self) -> None:
        self.is_closed = True


class Loader:
    """Loads a service on a thread, as soon as `go_on` is set."""

    def __init__(self) -> None:
        self.made: list[Service] = []
        self.threads: list[threading.Thread] = []
        self.began, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> Service:
        self.threads.append(threading.current_thread())
        self.began.set()
        self.go_on.wait(60)
        self.made.append(Service())
        return self.made[-1]


def request() -> web.BaseRequest:
    return cast(web.BaseRequest, Mock())


async def test_requests_at_the_same_time_load_the_service_once_on_a_thread() -> None:
    load = Loader()
    sockets = LateUpgrades(lambda path: path == "/ws", load)
    assert (sockets.takes("/ws"), sockets.takes("/metrics")) == (True, False)
    assert not load.threads
    opening = asyncio.gather(sockets.open(request()), sockets.open(request()))
    load.go_on.set()
    await opening
    await sockets.open(request())
    (service,) = load.made
    assert len(service.requests) == 3
    assert load.threads != [threading.current_thread()]
    sockets.close()
    assert service.is_closed


async def test_a_service_that_is_loaded_after_the_port_was_closed_is_closed() -> None:
    load = Loader()
    sockets = LateUpgrades(bool, load)
    opening = asyncio.ensure_future(sockets.open(request()))
    assert await asyncio.to_thread(load.began.wait, 60)
    sockets.close()
    load.go_on.set()
    await opening
    assert load.made[0].is_closed


async def test_a_load_that_fails_is_repeated_by_the_next_request() -> None:
    faults = [ImportError("no such library")]

    def load() -> Service:
        if faults:
            raise faults.pop()
        return Service()

    sockets = LateUpgrades(bool, load)
    with pytest.raises(ImportError, match="no such library"):
        await sockets.open(request())
    assert await sockets.open(request())
