"""The level of a running broker's loggers is changed over REST."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.web.web_scene import Web, running

LEVELS = "/admin/v2/brokers/log-levels"
LOGGER = "magnetar.server.protocol"
LIBRARY = "aiohttp"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Gives the loggers of this process their levels back."""
    loggers = [logging.getLogger(name) for name in (None, LOGGER, LIBRARY)]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


async def change(web: Web, name: str, body: str) -> int:
    return (await web.call("PUT", f"{LEVELS}/{name}", body))[0]


async def test_a_logger_gets_a_level_and_gives_it_back(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        assert LOGGER not in await web.json(LEVELS)
        assert await change(web, LOGGER, '"DEBUG"') == 204
        assert (await web.json(LEVELS))[LOGGER] == "DEBUG"
        assert logging.getLogger(f"{LOGGER}.requests").isEnabledFor(logging.DEBUG)
        assert (await web.call("DELETE", f"{LEVELS}/{LOGGER}"))[0] == 204
        assert LOGGER not in await web.json(LEVELS)


async def test_libraries_and_the_root_have_levels_too(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        assert await change(web, "root", "error") == 204
        assert await change(web, LIBRARY, "WARNING") == 204
        found = await web.json(LEVELS)
        assert (found["root"], found[LIBRARY]) == ("ERROR", "WARNING")


async def test_unknown_names_and_levels_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        status, text = await web.call("PUT", f"{LEVELS}/magnetar.no.such.module", "DEBUG")
        assert status == 404
        assert "magnetar.no.such.module" in text
        assert "magnetar.no.such.module" not in logging.root.manager.loggerDict
        for body in ("LOUD", "", '"TRACE"', "{}"):
            assert await change(web, LOGGER, body) == 400
        assert (await web.call("DELETE", f"{LEVELS}/root"))[0] == 400


async def test_debug_tells_the_commands_of_clients_and_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as web:
        assert await change(web, LOGGER, "DEBUG") == 204
        (await web.publish(1)).writer.close()
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
        assert any("producer topic=persistent://public/default/t1" in line for line in told)
