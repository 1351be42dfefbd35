"""Isolation policies of namespaces are stored and shown, without effect."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.web.web_scene import Web, running

PATH = "/admin/v2/clusters/standalone/namespaceIsolationPolicies"
NOWHERE = "/admin/v2/clusters/nowhere/namespaceIsolationPolicies"
POLICY: dict[str, Any] = {
    "namespaces": ["public/iso.*"],
    "primary": ["127.0.0.1.*"],
    "secondary": ["b.*"],
    "auto_failover_policy": {"parameters": {"min_limit": "1", "usage_threshold": "80"}, "policy_type": "min_available"},
}


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with running(tmp_path) as made:
        yield made


async def post(web: Web, path: str, body: Any) -> int:
    async with web.session.post(web.server.web_url + path, json=body) as answer:
        return answer.status


async def reason(web: Web, path: str, method: str = "GET") -> tuple[int, str]:
    status, _, body = await web.get(path, method)
    return status, json.loads(body)["reason"]


async def test_policies_are_kept_and_shown(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    none = "NamespaceIsolationPolicies for cluster standalone does not exist"
    assert await reason(web, PATH) == await reason(web, f"{PATH}/p1") == (404, none)
    assert await post(web, f"{PATH}/p1", POLICY) == 204
    assert "isolation policy p1 is without effect" in caplog.text
    assert await web.json(PATH) == {"p1": POLICY}
    assert await web.json(f"{PATH}/p1") == POLICY
    missing = "Cannot find NamespaceIsolationPolicy p2 for cluster standalone"
    assert await reason(web, f"{PATH}/p2") == (404, missing)
    for _ in range(2):
        assert (await web.get(f"{PATH}/p1", "DELETE"))[0] == 204
    assert await web.json(PATH) == {}


async def test_brokers_are_matched_with_the_policies(web: Web) -> None:
    broker = web.server.web_url.removeprefix("http://")
    alone = {"brokerName": broker, "namespaceRegex": [], "primary": False}
    status, body = await web.call("GET", f"{PATH}/brokers")
    assert (status, "does not exist" in body) == (404, True)
    await post(web, f"{PATH}/p1", POLICY)
    named = {"policyName": "p1", "namespaceRegex": ["public/iso.*"]}
    assert await web.json(f"{PATH}/brokers") == [{"brokerName": broker, **named, "primary": True}]
    assert await web.json(f"{PATH}/brokers/b1:80") == {"brokerName": "b1:80", **named, "primary": False}
    assert await web.json(f"{PATH}/brokers/c1:80") == {**alone, "brokerName": "c1:80"}


@pytest.mark.parametrize(
    "fault",
    [
        {"namespaces": []},
        {"primary": None},
        {"secondary": None},
        {"auto_failover_policy": None},
        {"auto_failover_policy": {"policy_type": "other", "parameters": {"min_limit": "1", "usage_threshold": "1"}}},
        {"auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}}},
    ],
)
async def test_half_a_policy_is_refused(web: Web, fault: dict[str, Any]) -> None:
    assert await post(web, f"{PATH}/p1", {**POLICY, **fault}) == 400
    assert (await web.get(PATH))[0] == 404


async def test_a_missing_cluster_is_named(web: Web) -> None:
    missing = "Cluster nowhere does not exist."
    assert await reason(web, NOWHERE) == (404, missing)
    assert await reason(web, f"{NOWHERE}/brokers") == (412, missing)
    assert await reason(web, f"{NOWHERE}/p1", "DELETE") == (412, missing)
    assert await post(web, f"{NOWHERE}/p1", POLICY) == 412
