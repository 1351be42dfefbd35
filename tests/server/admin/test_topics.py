"""Calls on topics that Apache answers wrongly, or not at all."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from magnetar.server.admin.routes import ROUTES
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from magnetar.server.web import http_app as web_app
from magnetar.server.web.needs import Scope
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame
from tests.server.fakes import command
from tests.server.wire_client import Client


class Admin:
    def __init__(self, server: Standalone, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        url = f"{self.server.web_url}/admin/v2/{path}"
        async with self.session.request(method, url, json=body) as answer:
            kind = answer.headers.get("Content-Type", "")
            text = await answer.text()
            return answer.status, await answer.json() if text and kind.startswith("application/json") else text


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    overrides = {"forceDeleteNamespaceAllowed": "true", "forceDeleteTenantAllowed": "true"}
    server = Standalone(StandaloneOptions(data_dir=tmp_path, broker_port=0, web_port=0, overrides=overrides))
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Admin(server, session)
    finally:
        await server.stop()


async def test_properties_of_topics_and_what_is_the_server_s_own(admin: Admin) -> None:
    path = "persistent/public/default/t/properties"
    assert await admin("PUT", path, {"a": "1"}) == (404, {"reason": "Topic persistent://public/default/t not found"})
    assert (await admin("DELETE", f"{path}?key=a"))[0] == 404
    assert await admin("PUT", "persistent/public/default/t", {"a": "1"}) == (204, "")
    assert await admin("PUT", path, {"fillAckHolesIntervalSeconds": "7"}) == (204, "")
    assert await admin("GET", path) == (200, {"a": "1", "fillAckHolesIntervalSeconds": "7"})
    assert (await admin("PUT", path, {"pulsar.topic.epoch": "9"}))[0] == 412
    assert (await admin("PUT", path, {"a": {"b": 1}}))[0] == 400
    for number in range(3):
        last = await admin("PUT", path, {f"large{number}": "x" * 30_000})
    assert last[0] == 412, "the record of the topic's ledgers must stay small enough to be written"
    assert (await admin("DELETE", f"{path}?key=large0"))[0] == 204
    subscription = "persistent/public/default/t/subscription/s"
    assert (await admin("PUT", subscription))[0] == 204
    assert (await admin("PUT", f"{subscription}/properties", {"a": "x" * 70_000}))[0] == 412


async def test_a_namespace_is_deleted_by_force_with_all_that_is_in_it(admin: Admin) -> None:
    await admin("PUT", "tenants/acme", {"allowedClusters": ["standalone"]})
    await admin("PUT", "namespaces/acme/n")
    await admin("PUT", "persistent/acme/n/t")
    await admin("PUT", "persistent/acme/n/p/partitions", 2)
    await admin("POST", "persistent/acme/n/t/maxProducers", 3)
    assert (await admin("DELETE", "namespaces/acme/n"))[0] == 409
    assert await admin("DELETE", "namespaces/acme/n?force=true") == (204, "")
    assert (await admin("GET", "namespaces/acme/n"))[0] == 404
    await admin("PUT", "namespaces/acme/n")
    assert await admin("GET", "persistent/acme/n?includeSystemTopic=true") == (200, [])
    assert await admin("GET", "persistent/acme/n/partitioned") == (200, [])
    await admin("PUT", "persistent/acme/n/t")
    assert await admin("GET", "persistent/acme/n/t/maxProducers") == (200, "")
    assert await admin("DELETE", "tenants/acme?force=true") == (204, "")
    assert (await admin("GET", "tenants/acme"))[0] == 404


async def test_truncating_deletes_all_messages(admin: Admin) -> None:
    client = await Client.connect(int(admin.server.broker_url.rpartition(":")[2]))
    topic = "persistent://public/default/t"
    client.say(command("PRODUCER", "producer", topic=topic, producer_id=1, request_id=1, producer_name="p"))
    await client.answer()
    await admin("PUT", "persistent/public/default/t/subscription/s", {"ledgerId": -1, "entryId": -1})
    payload = build_payload(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x")
    for number in range(3):
        client.writer.write(send_frame(pb.CommandSend(producer_id=1, sequence_id=number), payload))
        await client.answer()
    path = "persistent/public/default/t"
    await admin("POST", "namespaces/public/default/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    assert (await admin("GET", f"{path}/internalStats"))[1]["numberOfEntries"] == 3
    assert await admin("DELETE", f"{path}/truncate") == (204, "")
    stats = (await admin("GET", f"{path}/internalStats"))[1]
    assert (stats["numberOfEntries"], stats["totalSize"]) == (0, 0)
    assert (await admin("GET", f"{path}/stats"))[1]["subscriptions"]["s"]["msgBacklog"] == 0
    client.writer.write(send_frame(pb.CommandSend(producer_id=1, sequence_id=9), payload))
    assert (await client.answer()).type == pb.BaseCommand.SEND_RECEIPT
    assert (await admin("GET", f"{path}/stats"))[1]["subscriptions"]["s"]["msgBacklog"] == 1


BAD_POLICIES: tuple[dict[str, Any], ...] = (
    {"message_ttl_in_seconds": -1},
    {"message_ttl_in_seconds": "x"},
    {"auth_policies": {"namespace_auth": ["r"]}},
    {"auth_policies": {"namespace_auth": {"r": ["fly"]}}},
    {"backlog_quota_map": {"destination_storage": {}}},
    {"backlog_quota_map": {"other": {"policy": "producer_exception"}}},
    {"properties": ["a"]},
    {"topicDispatchRate": [1]},
    {"bundles": {"numBundles": -3}},
    {"replication_clusters": ["nowhere"]},
)


async def test_a_namespace_is_made_with_its_policies_or_not_at_all(admin: Admin) -> None:
    given = {
        "bundles": {"numBundles": 2},
        "message_ttl_in_seconds": 60,
        "auth_policies": {"namespace_auth": {"r": ["produce"]}},
        "backlog_quota_map": {"message_age": {"limitTime": 5, "policy": "producer_exception"}},
        "topicDispatchRate": {"standalone": {"dispatchThrottlingRateInMsg": 7}},
        "properties": {"a": "b"},
        "unknown": 1,
    }
    assert await admin("PUT", "namespaces/public/made", given) == (204, "")
    assert await admin("GET", "namespaces/public/made/messageTTL") == (200, 60)
    assert await admin("GET", "namespaces/public/made/permissions") == (200, {"r": ["produce"]})
    assert (await admin("GET", "namespaces/public/made/backlogQuotaMap"))[1]["message_age"]["limitTime"] == 5
    assert (await admin("GET", "namespaces/public/made/dispatchRate"))[1]["dispatchThrottlingRateInMsg"] == 7
    assert "unknown" not in (await admin("GET", "namespaces/public/made"))[1]
    for bad in BAD_POLICIES:
        status, answer = await admin("PUT", "namespaces/public/bad", bad)
        assert status in (400, 403, 412), bad
        assert answer["reason"], bad
        assert (await admin("GET", "namespaces/public/bad"))[0] == 404


async def test_a_cluster_in_use_stays(admin: Admin) -> None:
    status, answer = await admin("DELETE", "clusters/standalone")
    assert status == 412
    assert "Cluster not empty" in answer["reason"]
    assert await admin("GET", "clusters") == (200, ["standalone"])


async def test_a_body_has_a_limit(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    await admin("GET", "clusters")
    monkeypatch.setattr(web_app, "BODY_BYTES_MAX", 100)
    status, answer = await admin("PUT", "persistent/public/default/t", {"a": "x" * 100})
    assert status == 413
    assert "100 bytes" in answer["reason"]


def test_every_call_says_what_it_needs() -> None:
    """The calls that are open to everybody reveal nothing about anybody's data."""
    assert {route.path for route in ROUTES if route.needs.scope is Scope.EVERYBODY} == {
        "/",
        "/status.html",
        "/metrics",
        "/admin/v2/brokers/ready",
        "/admin/v2/brokers/version",
        "/admin/v2/clusters",
        "/console/{file}",
        "/console/{folder}/{file}",
    }
    for route in ROUTES:
        scope, names = route.needs.scope, route.path
        if scope in (Scope.TOPIC, Scope.TOPIC_POLICY):
            assert "{topic}" in names, route
        if scope in (Scope.NAMESPACE, Scope.NAMESPACE_POLICY):
            assert "{namespace}" in names, route
        if scope is Scope.TENANT_ADMIN:
            assert "{tenant}" in names, route


async def test_a_policy_without_effect_is_kept_and_told(admin: Admin, caplog: pytest.LogCaptureFixture) -> None:
    assert (await admin("PUT", "persistent/public/default/t"))[0] == 204
    for whose, name in (("namespaces/public/default", "public/default"), ("persistent/public/default/t", "default/t")):
        path = f"{whose}/dispatcherPauseOnAckStatePersistent"
        caplog.clear()
        assert await admin("POST", path, False) == (204, "")
        assert "without effect" not in caplog.text
        assert await admin("POST", path) == (204, "")
        assert await admin("GET", path) == (200, True)
        told = f"{name}: policy without effect in this version: dispatcherPauseOnAckStatePersistent: acknowledgements"
        assert told in caplog.text
    caplog.clear()
    body = {"dispatcherPauseOnAckStatePersistentEnabled": True}
    assert await admin("PUT", "namespaces/public/paused", body) == (204, "")
    assert "public/paused: policy without effect" in caplog.text


@pytest.mark.parametrize("body", [None, 2], ids=["plain", "partitioned"])
@pytest.mark.parametrize(
    "local_name", ["t-s__transaction_pending_ack", "__transaction_log_0", "transaction_coordinator_assign"]
)
async def test_a_name_of_a_transactions_log_is_refused_as_apaches_broker_does(
    admin: Admin, local_name: str, body: int | None
) -> None:
    path = f"persistent/public/default/{local_name}"
    answer = await admin("PUT", path if body is None else f"{path}/partitions", body)
    assert answer == (400, {"reason": "Cannot create topic in system topic format!"})
