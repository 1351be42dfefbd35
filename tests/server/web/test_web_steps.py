"""No call of the web port keeps the loop for long, however many topics there are, and not too many run at once.

What a step costs is counted in calls of functions, which a loaded machine does not change: some ten thousand of them
take ten milliseconds.
"""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType

import aiohttp
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.admin.routes import ROUTES
from magnetar.server.config.http_settings import WebSettings
from magnetar.server.process import turns
from magnetar.server.web import http_app as web_app
from magnetar.server.web.calls import Call, Route
from magnetar.server.web.http_listener import WebListener
from magnetar.server.web.json_encoding import PART_VALUES_MAX, encoded, encoded_parts
from magnetar.server.web.loop_share import LoopShare
from magnetar.server.web.needs import EVERYBODY
from magnetar.server.web.places import Place
from magnetar.storage.ledger.appends_under_way import AppendsUnderWay
from tests.server.admin.any_calls import ONE_EVENT, STREAM
from tests.server.fakes import make_broker
from tests.server.web.web_scene import Web, running
from tests.waiting import until

TOPICS = 250
STEP_CALLS_MAX = 2_500
"""The number of functions that one step may call. A step that calls ten for each topic calls as many."""

PARTS = {"tenant": "public", "namespace": "default", "domain": "persistent", "topic": "t1", "cluster": "standalone"}
PARTS |= {"subscription": "s", "bundle": "0x00000000_0xffffffff", "seconds": "9"}


class CountingShare(LoopShare):
    """A share that measures steps by the functions they call, in place of time, and lets every step run at once."""

    def __init__(self) -> None:
        self.calls = 0
        super().__init__(AppendsUnderWay(), lambda: float(self.calls))

    def count(self, frame: FrameType, event: str, argument: object) -> None:
        self.calls += event in ("call", "c_call")

    def has_time(self, *, is_urgent: bool) -> bool:
        return True

    @contextmanager
    def counting(self) -> Iterator[None]:
        self.longest_step_s = 0.0
        sys.setprofile(self.count)
        try:
            yield
        finally:
            sys.setprofile(None)


async def many_topics(web: Web) -> None:
    async def make(path: str, body: object = None) -> None:
        async with web.session.put(
            f"{web.server.web_url}/admin/v2/persistent/public/default/{path}", json=body
        ) as made:
            assert made.status == 204, await made.text()

    for first in range(0, TOPICS, 50):
        await asyncio.gather(*(make(f"t{number}") for number in range(first, first + 50)))
    await make("p/partitions", TOPICS)
    for first in range(0, TOPICS, 50):
        await asyncio.gather(*(make(f"t{number}/subscription/s") for number in range(first, first + 50)))


@pytest.mark.slow
async def test_no_step_of_any_call_grows_with_the_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes all calls that read, and those that change all subscriptions of a namespace or a partitioned topic."""
    share = CountingShare()
    monkeypatch.setattr(web_app, "LoopShare", lambda appends: share)
    monkeypatch.setattr(turns, "PORTION_SECONDS", 0.0)
    changes = re.compile(r"clearBacklog|unsubscribe|expire|skip|unload|trim$")
    too_long = {}
    async with running(tmp_path) as web:
        await many_topics(web)
        asked = [route for route in ROUTES if route.method == "GET" or changes.search(route.path)]
        for route in sorted(asked, key=lambda route: "unsubscribe" in route.path):
            for topic in ("t1", "p") if "{topic}" in route.path else ("",):
                path = re.sub(r"\{(\w+)\}", lambda part: {**PARTS, "topic": topic}.get(part[1], "1"), route.path)  # noqa: B023
                if path == "/metrics":
                    path += "/"  # otherwise the call is redirected
                with share.counting():
                    await web.get(path + (ONE_EVENT if path.endswith(STREAM) else ""), route.method)
                if share.longest_step_s > STEP_CALLS_MAX:
                    too_long[f"{route.method} {path}"] = share.longest_step_s
    assert too_long == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner),
)


@given(JSON, st.sampled_from([1, 2, 5, PART_VALUES_MAX]))
def test_an_answer_in_parts_is_the_answer_at_once(value: object, part: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("magnetar.server.web.json_encoding.PART_VALUES_MAX", part)
        at_once = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
        assert asyncio.run(encoded(value)) == at_once
        assert b"".join(asyncio.run(encoded_parts(value))) == at_once


async def test_a_long_list_of_texts_is_sent_in_parts() -> None:
    names = [f"persistent://public/default/t{number}" for number in range(3 * PART_VALUES_MAX)]
    parts = await encoded_parts(names)
    assert orjson.loads(b"".join(parts)) == names
    assert max(map(len, parts)) < 50 * PART_VALUES_MAX


async def test_a_large_answer_is_encoded_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PORTION_SECONDS", 0.0)
    value = {"public/default": {"bundle": {"persistent": {f"t{n}": {"a": 1, "b": [1, 2]} for n in range(10_000)}}}}
    others = 0

    async def count() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    assert orjson.loads(await encoded(value)) == value
    counting.cancel()
    assert others > 10


class Gated:
    """Routes whose calls wait until they are let go."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.waiting = 0
        self.routes = (
            Route("GET", "/slow", self.wait, EVERYBODY, Place.ANY_BROKER),
            Route("GET", "/urgent", self.at_once, EVERYBODY, Place.ANY_BROKER, is_urgent=True),
        )

    async def wait(self, call: Call) -> str:
        self.waiting += 1
        await self.go_on.wait()
        return "slow"

    async def at_once(self, call: Call) -> str:
        return "urgent"


@asynccontextmanager
async def gated(settings: WebSettings) -> AsyncIterator[tuple[Gated, str]]:
    scene = Gated()
    listener = WebListener(make_broker(), lambda: scene.routes, settings)
    url = f"http://127.0.0.1:{await listener.start('127.0.0.1', 0)}"
    try:
        yield scene, url
    finally:
        await listener.close()


async def test_more_calls_than_may_be_in_progress_are_told_to_come_again() -> None:
    settings = WebSettings(max_concurrent_http_requests=3)
    async with gated(settings) as (scene, url), aiohttp.ClientSession() as session:
        waiting = [asyncio.ensure_future(session.get(f"{url}/slow")) for _ in range(3)]
        await until(lambda: scene.waiting == 3)
        async with session.get(f"{url}/slow") as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            assert "maxConcurrentHttpRequests" in (await refused.json())["reason"]
        async with session.get(f"{url}/urgent") as answer:
            assert (answer.status, await answer.json()) == (200, "urgent")
        scene.go_on.set()
        assert [(await call).status for call in waiting] == [200] * 3
        async with session.get(f"{url}/slow") as answer:
            assert answer.status == 200


async def test_lookups_and_health_are_urgent() -> None:
    urgent = {route.path for route in ROUTES if route.is_urgent}
    assert urgent == {
        "/status.html",
        "/admin/v2/brokers/health",
        "/admin/v2/brokers/ready",
        "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}",
        "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions",
    }
