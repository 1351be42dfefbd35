"""The calls on clusters, and calls that need an existing cluster."""

from pathlib import Path

import pytest

from tests.server.web.web_scene import running


async def test_a_failure_domain_of_a_missing_cluster_is_told_from_a_missing_domain(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        for method in ("GET", "DELETE"):
            status, _, body = await web.get("/admin/v2/clusters/nowhere/failureDomains/d", method)
            assert (status, body) == (412, '{"reason":"Cluster nowhere does not exist."}')
            status, _, body = await web.get("/admin/v2/clusters/standalone/failureDomains/d", method)
            assert status == 404, body


@pytest.mark.parametrize(
    ("path", "status", "answer"),
    [
        ("/admin/namespaces/standalone/antiAffinity/g1?property=public", 200, '["public/default"]'),
        ("/admin/v2/namespaces/standalone/antiAffinity/g1?tenant=public", 200, '["public/default"]'),
        ("/admin/namespaces/standalone/antiAffinity/other?property=public", 200, "[]"),
        ("/admin/namespaces/standalone/antiAffinity/g1?property=", 400, '{"reason":"Tenant should not be null"}'),
        (
            "/admin/namespaces/nowhere/antiAffinity/g1?property=public",
            412,
            '{"reason":"Cluster nowhere does not exist."}',
        ),
    ],
)
async def test_anti_affinity_namespaces_are_listed_the_way_admin_clients_ask(
    tmp_path: Path, path: str, status: int, answer: str
) -> None:
    """The clients of Java and Go use the path of Pulsar 1, where the parameter `property` names the tenant."""
    async with running(tmp_path) as web:
        group = web.server.web_url + "/admin/v2/namespaces/public/default/antiAffinity"
        async with web.session.post(group, json="g1") as set_group:
            assert set_group.status == 204
        got = await web.get(path)
        assert (got[0], got[2]) == (status, answer)
