"""Random calls of every route: each gets an answer, and none says that the server failed."""

import logging
import random
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from magnetar.server.admin.routes import ROUTES
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from tests.server.admin.any_calls import BODIES, path_of

CALLS_PER_ROUTE = 12
REFUSED = ("listener", "This broker does not ", "not configured with transactionCoordinatorEnabled=true")
"""Texts in answers with status 500 or more that are right: a listener that has no address, services that this server
does not have, and those that are switched off."""
SEED = 20261121


async def test_no_call_makes_the_server_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(SEED)
    server = Standalone(StandaloneOptions(data_dir=tmp_path, broker_port=0, web_port=0))
    await server.start()
    failures = []
    try:
        async with aiohttp.ClientSession() as session:
            for topic in ("t", "p/partitions"):
                url = f"{server.web_url}/admin/v2/persistent/public/default/{topic}"
                async with session.put(url, json=2 if "/" in topic else None) as answer:
                    assert answer.status == 204
            for route in ROUTES:
                for _ in range(CALLS_PER_ROUTE):
                    path, body = path_of(route.path, rng), rng.choice(BODIES)
                    called = URL(server.web_url + path, encoded=True)
                    async with session.request(route.method, called, data=body, allow_redirects=False) as answer:
                        text = await answer.text(errors="replace")
                        if answer.status >= 500 and not any(known in text for known in REFUSED):
                            failures.append(f"{route.method} {path} {body}: {answer.status} {text}")
                        elif answer.status >= 400 and "reason" not in text:
                            failures.append(f"{route.method} {path} {body}: {answer.status} without a reason: {text}")
            async with session.get(f"{server.web_url}/admin/v2/brokers/health") as answer:
                assert (answer.status, await answer.text()) == (200, "ok")
    finally:
        await server.stop()
    assert not failures, "\n" + "\n".join(each[:400] for each in failures)
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
