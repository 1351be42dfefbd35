"""A page that stays open costs no more and more: neither the browser nor the server grows while events come.

A page gets 86,400 events in a day. This test has the server send them as fast as the page takes
them, and has the page make its calls more often; it lasts a part of a day. `MAGNETAR_PAGE_EVENTS=86400` makes it a
whole one.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pulsar
import pytest

from compat_tests.chromium import Page
from compat_tests.conftest import ClientFactory
from compat_tests.console.charts_seen import watch_charts
from compat_tests.console.shop import Shop, all_pages, open_shop
from compat_tests.harness import Server, wait_until
from compat_tests.products import Magnetar

EVENTS = int(os.environ.get("MAGNETAR_PAGE_EVENTS", "1200"))
EVENTS_BEFORE = 400
"""After so many events a page holds all that it ever holds: charts keep 300 points."""
SECONDS_MAX = 60 + EVENTS / 20
HEAP_BYTES_MAX = 2 << 20
"""How much more a page may hold at any time: it swings by half a megabyte as V8 compiles and forgets functions. A whole
day shows a leak of 25 bytes an event."""
NODES_MAX = 100
LISTENERS_MAX = 20
"""Each call that is under way has some. A stream ends after 30 events here and is opened again; it leaves none."""
SERVER_BYTES_MAX = 16 << 20

HURRY = """
{
  const wait = window.setTimeout;
  window.setTimeout = (work, ms = 0, ...more) => wait(work, ms < 20_000 ? ms / 100 : ms, ...more);
}
"""
"""Makes the pauses between calls a hundred times shorter, so that a page still makes some calls in the time of ten
events. The deadlines of calls, which are longer, stay."""

pytestmark = pytest.mark.slow


class Held(NamedTuple):
    """What an open page costs at one moment."""

    heap_bytes: int
    nodes: int
    listeners: int
    server_bytes: int


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[Server]:
    program = [sys.executable, str(Path(__file__).with_name("hurried_server.py"))]
    with Server(tmp_path / "hurried", product=Magnetar(program)) as server:
        yield server


@pytest.fixture
def busy_shop(hurried: Server, make_client: ClientFactory) -> Shop:
    client: pulsar.Client = make_client(hurried.broker_url)
    return open_shop(hurried, client)


def held(page: Page, server: Server) -> Held:
    for _ in range(2):
        page.call("HeapProfiler.collectGarbage")
    counters = page.call("Memory.getDOMCounters")
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return Held(
        int(page.call("Runtime.getHeapUsage")["usedSize"]),
        int(counters["nodes"]),
        int(counters["jsEventListeners"]),
        pages * os.sysconf("SC_PAGE_SIZE"),
    )


@pytest.mark.parametrize(("name", "charts"), [("overview", 3), ("topic", 2)])
def test_an_open_page_holds_after_many_events_what_it_held_after_few(
    page: Page, hurried: Server, busy_shop: Shop, name: str, charts: int
) -> None:
    watch_charts(page)
    page.call("Page.addScriptToEvaluateOnNewDocument", source=HURRY)
    url, is_there = all_pages(busy_shop)[name]
    page.open(url)
    page.wait(is_there, url)

    def has_drawn(events: int) -> bool:
        return int(page.value("window.drawings")) >= events * charts

    wait_until(lambda: has_drawn(EVENTS_BEFORE), "the charts are full", SECONDS_MAX)
    before = held(page, hurried)
    wait_until(lambda: has_drawn(EVENTS_BEFORE + EVENTS), f"{EVENTS} more events", SECONDS_MAX)
    after = held(page, hurried)
    print(f"{name}: {before} and, {EVENTS} events later, {after}")
    grown = Held(*(new - old for old, new in zip(before, after, strict=True)))
    assert grown.heap_bytes < HEAP_BYTES_MAX
    assert grown.nodes < NODES_MAX
    assert grown.listeners < LISTENERS_MAX
    assert grown.server_bytes < SERVER_BYTES_MAX
