"""The same as `test_reconnects`, against a real ZooKeeper whose connection is cut."""

import asyncio

import pytest

from magnetar.metadata.store import SessionEvent
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from tests.metadata.zookeeper.zookeeper_events import SessionRecorder, end_session
from tests.metadata.zookeeper.zookeeper_proxy import ZkProxy
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer
from tests.server.reconnects.views import VIEWS, View

pytestmark = pytest.mark.process

SECONDS_MAX = 60


@pytest.mark.parametrize("loses_session", [False, True])
@pytest.mark.parametrize("view_type", VIEWS, ids=lambda view: view.__name__)
async def test_a_change_behind_a_cut_connection_is_read_again(
    view_type: type[View],
    loses_session: bool,
    server: ZooKeeperServer,
    direct: ZooKeeperStore,
    store: ZooKeeperStore,
    proxy: ZkProxy,
) -> None:
    view = view_type()
    events = SessionRecorder(store)
    await view.prepare(direct)
    await view.start(store)
    proxy.refusing = True
    proxy.cut()
    await events.until(SessionEvent.DISCONNECTED)
    await view.change(direct)
    if loses_session:
        await end_session(store, server.port)
    proxy.refusing = False
    async with asyncio.timeout(SECONDS_MAX):
        await events.until(SessionEvent.NEW_SESSION if loses_session else SessionEvent.CONNECTED)
        while not await view.sees():
            await store.sync()
    await view.close()
