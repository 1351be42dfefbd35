"""Settings of services that this server does not have are stored and shown, with a warning in the log, or refused."""

import json
from pathlib import Path

import pytest

from tests.server.web.web_scene import TOPIC, running

PATH = "/admin/v2/" + TOPIC.replace("://", "/")
NAMESPACE = "/admin/v2/namespaces/public/default"
GROUPS = "/admin/v2/resourcegroups"


async def test_a_resource_group_is_kept_and_held_by_the_namespaces_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as web:
        assert await web.json(GROUPS) == []
        assert (await web.call("GET", f"{GROUPS}/g"))[0] == 404
        assert (await web.call("POST", f"{NAMESPACE}/resourcegroup/g"))[0] == 412
        assert await web.call("PUT", f"{GROUPS}/g", '{"publishRateInMsgs": 10}') == (204, "")
        assert await web.call("PUT", f"{GROUPS}/g", '{"dispatchRateInBytes": 7}') == (204, "")
        assert "resource group g is without effect" in caplog.text
        assert await web.json(f"{GROUPS}/g") == {
            "publishRateInMsgs": 10, "publishRateInBytes": -1, "dispatchRateInMsgs": -1, "dispatchRateInBytes": 7,
        }  # fmt: skip
        assert await web.call("POST", f"{NAMESPACE}/resourcegroup/g") == (204, "")
        assert await web.call("GET", f"{NAMESPACE}/resourcegroup") == (200, "g")
        assert (await web.call("DELETE", f"{GROUPS}/g"))[0] == 412
        assert await web.call("DELETE", f"{NAMESPACE}/resourcegroup") == (204, "")
        assert await web.call("DELETE", f"{GROUPS}/g") == (204, "")
        assert (await web.call("DELETE", f"{GROUPS}/g"))[0] == 404
        assert (await web.call("PUT", f"{GROUPS}/..%2Ftenants", "{}"))[0] == 412


async def test_a_bookie_affinity_group_stays_beside_the_bundles(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        before = await web.json(f"{NAMESPACE}/bundles")
        path, group = f"{NAMESPACE}/persistence/bookieAffinity", '{"bookkeeperAffinityGroupPrimary":"g1"}'
        assert await web.call("POST", path, group) == (204, "")
        assert await web.call("GET", path) == (200, group)
        assert await web.json(f"{NAMESPACE}/bundles") == before
        assert await web.call("DELETE", path) == (204, "")
        assert await web.call("GET", path) == (204, "")
        assert (await web.call("POST", f"{NAMESPACE}x/persistence/bookieAffinity", group))[0] == 404


async def test_clients_are_not_told_to_go_to_another_cluster(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        path = "/admin/v2/clusters/standalone/migrate"
        urls = '{"brokerServiceUrl": "pulsar://h:1", "empty": false}'
        assert (await web.call("GET", path))[0] == 404
        status, reason = await web.call("POST", f"{path}?migrated=true", urls)
        assert (status, "does not move its clients" in reason) == (503, True)
        assert await web.call("POST", f"{path}?migrated=false", urls) == (200, "")
        kept = {"migrated": False, "migratedClusterUrl": {"brokerServiceUrl": "pulsar://h:1", "empty": False}}
        assert await web.json(path) == kept
        assert await web.call("POST", f"{NAMESPACE}/migration", "false") == (204, "")
        assert (await web.call("POST", f"{NAMESPACE}/migration", "true"))[0] == 503
        assert (await web.call("POST", f"{NAMESPACE}x/migration", "false"))[0] == 404


async def test_no_topic_becomes_another_one_s_shadow(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.publish(1)
        shadow = json.dumps({"PULSAR.SHADOW_SOURCE": TOPIC})
        status, reason = await web.call("PUT", f"{PATH}-shadow", shadow)
        assert (status, "does not have shadow topics" in reason) == (503, True)
        assert (await web.call("GET", f"{PATH}-shadow/stats"))[0] == 404
        partitioned = json.dumps({"partitions": 2, "properties": json.loads(shadow)})
        assert (await web.call("PUT", f"{PATH}-shadow/partitions", partitioned))[0] == 503
        assert await web.call("GET", f"{PATH}/shadowTopics") == (200, "")
        assert (await web.call("PUT", f"{PATH}/shadowTopics", f'["{TOPIC}-nowhere"]'))[0] == 412
        assert (await web.call("PUT", f"{PATH}/shadowTopics", f'["{TOPIC}"]'))[0] == 503
        assert await web.call("DELETE", f"{PATH}/shadowTopics") == (204, "")


async def test_offload_policies_are_shown_with_java_s_defaults(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as web:
        await web.publish(1)
        given = '{"managedLedgerOffloadDriver": "S3", "managedLedgerOffloadBucket": "b", "unknown": 1}'
        for whose, removed in ((NAMESPACE, "removeOffloadPolicies"), (PATH, "offloadPolicies")):
            assert await web.call("GET", f"{whose}/offloadPolicies") == (200, "")
            assert await web.call("POST", f"{whose}/offloadPolicies", given) == (204, "")
            shown = await web.json(f"{whose}/offloadPolicies")
            assert (shown["s3Driver"], shown["gcsDriver"], shown["managedLedgerOffloadMaxThreads"]) == (True, False, 2)
            assert shown["managedLedgerOffloadBucket"] == "b"
            for bad in ('{"managedLedgerOffloadDriver": "S3"}', "{}", '{"managedLedgerOffloadDriver": "tape"}'):
                assert (await web.call("POST", f"{whose}/offloadPolicies", bad))[0] == 412
            assert await web.call("DELETE", f"{whose}/{removed}") == (204, "")
            assert await web.call("GET", f"{whose}/offloadPolicies") == (200, "")
        assert caplog.text.count("offloadPolicies: this broker does not offload") == 2


async def test_a_topic_s_offload_policies_apply_over_its_namespace_s(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.publish(1)
        applied = f"{PATH}/offloadPolicies?applied=true"
        assert await web.call("GET", applied) == (200, "")
        file_system = '{"managedLedgerOffloadDriver": "filesystem", "managedLedgerOffloadThresholdInBytes": 7}'
        await web.call("POST", f"{NAMESPACE}/offloadPolicies", file_system)
        assert (await web.json(applied))["fileSystemDriver"]
        assert await web.json(f"{NAMESPACE}/offloadThreshold") == 7
        await web.call("PUT", f"{NAMESPACE}/offloadThreshold", "8")
        assert (await web.json(f"{NAMESPACE}/offloadPolicies"))["managedLedgerOffloadThresholdInBytes"] == 8
        s3 = '{"managedLedgerOffloadDriver": "S3", "managedLedgerOffloadBucket": "b"}'
        await web.call("POST", f"{PATH}/offloadPolicies", s3)
        merged = await web.json(applied)
        assert (merged["managedLedgerOffloadDriver"], merged["managedLedgerOffloadThresholdInBytes"]) == ("S3", 8)
