"""The fixture of the tests over several brokers."""

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.server.load.load_site import Site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    for each in made.brokers.values():
        with suppress(Exception):
            await each.stop()
