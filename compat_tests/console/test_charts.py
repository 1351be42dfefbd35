"""What charts draw: nothing that was not so."""

import threading
from collections.abc import Iterator

import pulsar
import pytest

from compat_tests.chromium import Page
from compat_tests.console.charts_seen import points_of, watch_charts
from compat_tests.console.shop import Shop

POINTS = 4

pytestmark = pytest.mark.slow


@pytest.fixture
def publishing(client: pulsar.Client, shop: Shop) -> Iterator[None]:
    """Publishes to the shop's topic until the test ends, without a pause."""
    producer, ends = client.create_producer(shop.topic), threading.Event()

    def publish() -> None:
        while not ends.is_set():
            producer.send(b"{}")

    thread = threading.Thread(target=publish)
    thread.start()
    yield
    ends.set()
    thread.join()


@pytest.mark.parametrize(("place", "panel"), [((), "messages"), (("topic",), "rates")])
def test_a_chart_of_a_busy_topic_does_not_begin_with_zero(
    page: Page, shop: Shop, publishing: None, place: tuple[str, ...], panel: str
) -> None:
    watch_charts(page)
    page.open(shop.topic_url() if place else shop.url())
    chart = f"document.querySelector('[data-panel={panel}] .chart-frame')?.plot"
    page.wait(f"{chart}?.data[0].length >= {POINTS}", "some points")
    times, rates_in, *_ = points_of(page, panel)
    assert len(times) == len(rates_in) >= POINTS
    assert all(rate > 0 for rate in rates_in), rates_in
