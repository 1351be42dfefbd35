"""Calls of Apache Pulsar that this server does not have are refused with a text that says what is missing."""

import json
from pathlib import Path

import pytest

from magnetar.server.web.absent_calls import (
    NO_AVAILABILITY,
    NO_PENDING_OPERATIONS,
    NO_PROXY,
    NO_REST_CONSUMER,
    NO_WEBSOCKET,
    ONLY_V2,
    refusal_of_path,
)
from tests.server.web.web_scene import running

WORKER = "Pulsar Function Worker is not enabled, probably functionsWorkerEnabled is set to false"


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/admin/v3/functions/public/default", 409, WORKER),
        ("/admin/v3/functions/public/default/f/status", 409, WORKER),
        ("/admin/v3/sources/builtinsources", 409, WORKER),
        ("/admin/v3/sink/public/default/s", 409, WORKER),
        ("/admin/v2/worker/cluster/leader", 409, WORKER),
        ("/admin/v2/worker-stats/metrics", 409, WORKER),
        ("/admin/v3/packages/function/public/default", 503, "Package Management Service is not enabled in the broker."),
        ("/admin/v2/broker-stats/bookieops", 404, NO_PENDING_OPERATIONS),
        ("/admin/v2/broker-stats/broker-resource-availability/public/default", 409, NO_AVAILABILITY),
        ("/proxy-stats/connections", 404, NO_PROXY),
        ("/admin/v2/proxy-stats/metrics", 404, NO_PROXY),
        ("/ws/v2/producer/persistent/public/default/t", 404, NO_WEBSOCKET),
        ("/topics/persistent/public/default/t", 404, NO_REST_CONSUMER),
        ("/admin/persistent/public/standalone/default/t/stats", 404, ONLY_V2),
        ("/admin/clusters", 404, ONLY_V2),
        ("/lookup/v2/destination/persistent/public/standalone/default/t", 404, ONLY_V2),
        ("/admin/v3/functionsx", 404, "There is nothing at /admin/v3/functionsx"),
        ("/admin/v2/sinks-of-mine/a", 404, "There is nothing at /admin/v2/sinks-of-mine/a"),
    ],
)
def test_what_is_missing_is_said_as_apache_says_it(path: str, status: int, reason: str) -> None:
    refusal = refusal_of_path(path)
    assert (refusal.status, refusal.reason) == (status, reason)


async def test_a_call_of_any_method_is_told_what_is_missing(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        for method in ("GET", "POST", "PUT", "DELETE"):
            status, _, body = await web.get("/admin/v3/functions/public/default/f", method)
            assert (status, json.loads(body)) == (409, {"reason": WORKER})
        status, _, body = await web.get("/admin/v2/broker-stats/allocator-stats/default")
        assert (status, "JVM" in body) == (404, True)
