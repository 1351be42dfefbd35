"""Fixtures of the console's tests: a browser, a page, and a topic with everything that the pages show."""

from collections.abc import Iterator

import pulsar
import pytest

from compat_tests.chromium import Chromium, Page, running_chromium
from compat_tests.console.shop import Shop, open_shop
from compat_tests.harness import Server


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def page(chromium: Chromium) -> Iterator[Page]:
    """Yields an empty page. At the end the page must not have complained about anything."""
    made = chromium.new_page()
    made.size(1280)
    yield made
    complaints = made.complaints
    made.close()
    assert complaints == []


@pytest.fixture
def shop(server: Server, client: pulsar.Client) -> Shop:
    return open_shop(server, client)
