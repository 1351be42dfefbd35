"""Calls that look at every namespace let other tasks run meanwhile, although the embedded metadata answers at once."""

import asyncio
from pathlib import Path

import pytest

from magnetar.server.process import turns
from tests.server.web.web_scene import running

COUNT = 60
CLUSTER = '{"serviceUrl":"http://127.0.0.1:1","brokerServiceUrl":"pulsar://127.0.0.1:2"}'
LOOKING = (
    ("DELETE", "/admin/v2/resourcegroups/g"),
    ("DELETE", "/admin/v2/clusters/far"),
    ("GET", "/admin/v2/namespaces/standalone/antiAffinity/group?tenant=public"),
    ("GET", "/admin/v2/persistent/public/default/t/internal-info"),
)


class TurnCounter:
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self.count += 1
        self._next = asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        self._next.cancel()


async def test_calls_that_look_at_every_namespace_let_other_tasks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PORTION_SECONDS", 0.0)  # sixty namespaces take as long as thousands do
    async with running(tmp_path) as web:
        assert (await web.call("PUT", "/admin/v2/persistent/public/default/t"))[0] == 204
        for number in range(COUNT):
            assert (await web.call("PUT", f"/admin/v2/namespaces/public/n{number}", "{}"))[0] == 204
            group = f"/admin/v2/namespaces/public/n{number}/antiAffinity"
            assert (await web.call("POST", group, '"group"'))[0] == 204
            subscription = f"/admin/v2/persistent/public/default/t/subscription/s{number}"
            assert (await web.call("PUT", subscription))[0] == 204
        assert (await web.call("PUT", "/admin/v2/resourcegroups/g", "{}"))[0] == 204
        assert (await web.call("PUT", "/admin/v2/clusters/far", CLUSTER))[0] == 200
        for method, path in LOOKING:
            counter = TurnCounter()
            status, answer = await web.call(method, path)
            counter.stop()
            assert status in (200, 204), answer
            assert counter.count > COUNT, path
