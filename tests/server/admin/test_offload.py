"""Offloading, which this server does not do: calls that read are answered, calls that would start it are refused, and
setting a policy logs a warning."""

from pathlib import Path

import pytest

from tests.server.web.web_scene import TOPIC, running

PATH = "/admin/v2/" + TOPIC.replace("://", "/")
NAMESPACE = "/admin/v2/namespaces/public/default"
THRESHOLDS = ("offloadThreshold", "offloadThresholdInSeconds")


async def test_a_topic_was_never_offloaded_and_is_not(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        assert (await web.get(f"{PATH}/offload"))[0] == 404
        assert (await web.get(f"{PATH}/offload", "PUT"))[0] == 404
        await web.publish(1)
        nothing = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0}
        answer = await web.json(f"{PATH}/offload")
        assert answer == {"status": "NOT_RUN", "lastError": "", "firstUnoffloadedMessage": nothing}
        status, _, body = await web.get(f"{PATH}/offload", "PUT")
        assert (status, "does not offload" in body) == (503, True)
        assert (await web.get(f"{PATH.replace('persistent', 'non-persistent', 1)}/offload"))[0] == 404


async def test_thresholds_are_kept_and_told_to_be_without_effect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as web:

        async def put(policy: str, body: str) -> int:
            async with web.session.put(f"{web.server.web_url}{NAMESPACE}/{policy}", data=body) as answer:
                return answer.status

        for policy in THRESHOLDS:
            assert await web.json(f"{NAMESPACE}/{policy}") == -1
            assert await put(policy, "-1") == 204
            assert "without effect" not in caplog.text
        for policy in THRESHOLDS:
            assert await put(policy, "1000") == 204
            assert await web.json(f"{NAMESPACE}/{policy}") == 1000
            assert f"policy without effect in this version: {policy}: this broker does not offload" in caplog.text
            assert await put(policy, '"x"') == 400
            status, _, body = await web.get(f"/admin/v2/namespaces/public/nowhere/{policy}")
            assert (status, body) == (404, '{"reason":"Namespace does not exist"}')


async def test_the_deletion_lag_comes_and_goes(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        path = f"{NAMESPACE}/offloadDeletionLagMs"
        assert (await web.get(path))[::2] == (200, "")
        async with web.session.put(web.server.web_url + path, data="3600000") as answer:
            assert answer.status == 204
        assert (await web.get(path))[::2] == (200, "3600000")
        assert (await web.get(path, "DELETE"))[0] == 204
        assert (await web.get(path))[::2] == (200, "")
