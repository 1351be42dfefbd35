"""The HTTP port while authentication and authorization are on: nobody gets past what a route needs."""

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from aiohttp import ClientSession

from magnetar.server.admin.routes import ROUTES
from magnetar.server.broker.http_calls import HttpCalls
from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.security.demands import OnNamespace, OnNamespacePolicy, OnTopic, OnTopicPolicy, Open, TenantAdmin
from magnetar.server.security.security import Security
from magnetar.server.web.authorization import admit, demand_of
from magnetar.server.web.calls import Refusal, Route
from magnetar.server.web.http_listener import WebListener
from magnetar.server.web.needs import (
    EVERYBODY,
    SUPERUSER,
    TENANT_ADMIN,
    Need,
    Scope,
    namespace,
    namespace_policy,
    topic,
    topic_policy,
)
from magnetar.storage.ledger.appends_under_way import AppendsUnderWay

KEY = "k" * 40
PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
TOPIC = {"domain": "persistent", "tenant": "acme", "namespace": "orders", "topic": "t", "subscription": "s"}

ROUTE_NEEDS = Path(__file__).with_name("route_needs.txt")
"""Every method and path with what it needs. `MAGNETAR_REWRITE_TABLES=1 pytest tests/server/security/test_http.py`
writes it anew; the diff is for a reviewer, who holds each changed line against Apache's resource class."""

OPEN_TO_EVERYBODY = {
    "/",
    "/console/{file}",
    "/console/{folder}/{file}",
    "/status.html",
    "/metrics",
    "/admin/v2/brokers/ready",
    "/admin/v2/brokers/version",
    "/admin/v2/clusters",
}
"""The routes that everybody may call, and no others. Whoever adds such a route adds it here, and the reason to the
route."""


def bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {jwt.encode({'sub': role}, KEY, algorithm='HS256')}"}


def security(**settings: Any) -> Security:
    async def tenant(name: str) -> Mapping[str, Any] | None:
        return {"adminRoles": ["boss"]} if name == "acme" else None

    async def policies(name: str) -> Mapping[str, Any] | None:
        return {"auth_policies": {"namespace_auth": {"alice": ["produce"]}}} if name == "acme/orders" else None

    options: dict[str, Any] = {
        "authentication_enabled": True,
        "authentication_providers": (PROVIDER,),
        "authorization_enabled": True,
        "token_secret_key": f"data:,{KEY}",
        "super_user_roles": ("root", "proxy"),
        "proxy_roles": ("proxy",),
    }
    return Security(SecuritySettings(**(options | settings)), tenant, policies)


async def refusal(need: Any, headers: Mapping[str, str], parts: Mapping[str, str] = TOPIC, **settings: Any) -> Any:
    """Returns (status, reason), or None when the call may go on."""
    try:
        await admit(security(**settings), need, "/x", parts, headers, None, "1.2.3.4")
    except Refusal as refused:
        return refused.status, refused.reason
    return None


async def test_who_sends_nothing_but_a_certificate_is_who_it_says() -> None:
    """It is so with a provider of tokens too, unless the call has an Authorization header, which comes first."""
    tls = "org.apache.pulsar.broker.authentication.AuthenticationProviderTls"
    authenticator = security(authentication_providers=(PROVIDER, tls)).authenticator
    assert (await authenticator.of_http({}, "alice")).role == "alice"
    assert (await authenticator.of_http(bearer("bob"), "alice")).role == "bob"
    without = security(authentication_providers=(PROVIDER,), anonymous_user_role="nobody").authenticator
    assert (await without.of_http({}, "alice")).role == "nobody"


class TestRoutes:
    def test_every_route_states_a_need_that_exists_and_names_what_it_is_about(self) -> None:
        for route in ROUTES:
            demand = demand_of(route.needs)
            wanted: set[str] = set()
            if isinstance(demand, OnTopic | OnTopicPolicy):
                wanted = {"tenant", "namespace", "topic"}
                assert "/non-persistent/" not in route.path, "the domain must be a part: without it it is persistent"
            elif isinstance(demand, OnNamespace | OnNamespacePolicy):
                wanted = {"tenant", "namespace"}
            elif isinstance(demand, TenantAdmin):
                wanted = {"tenant"}
            assert wanted <= set(re.findall(r"\{(\w+)\}", route.path)), f"{route.method} {route.path}"

    def test_every_method_and_path_needs_what_the_table_says(self) -> None:
        """A need that became weaker shows as a changed line of `route_needs.txt`, which every reviewer sees."""
        rows = sorted(f"{route.path} {route.method}: {in_words(route.needs)}" for route in ROUTES)
        table = "".join(f"{row}\n" for row in rows)
        if os.environ.get("MAGNETAR_REWRITE_TABLES"):
            ROUTE_NEEDS.write_text(table)
        assert ROUTE_NEEDS.read_text().splitlines() == rows, "MAGNETAR_REWRITE_TABLES=1 writes the table anew"

    def test_only_these_ask_nobody(self) -> None:
        assert {route.path for route in ROUTES if isinstance(demand_of(route.needs), Open)} <= OPEN_TO_EVERYBODY

    async def test_no_route_does_anything_for_a_stranger(self) -> None:
        guarded = [route for route in ROUTES if route.path not in OPEN_TO_EVERYBODY]
        assert len(guarded) > 50
        async with serving(security()) as (session, url):
            for route in guarded:
                for headers, statuses in (({}, {401}), (bearer("stranger"), {401, 403})):
                    async with session.request(route.method, url + filled(route), headers=headers) as answer:
                        assert answer.status in statuses, f"{route.method} {route.path}: {await answer.text()}"

    async def test_the_body_of_who_may_not_call_is_not_read(self) -> None:
        async with serving(security()) as (session, url):
            put = session.put(f"{url}/admin/v2/tenants/x", data=b"x" * (2 << 20), headers=bearer("stranger"))
            async with put as answer:
                assert answer.status == 401


def in_words(need: Need) -> str:
    """Returns a need in words, such as `topic policy operation RETENTION, write`."""
    words = f"{need.scope.value} {need.operation}".strip()
    if need.scope in (Scope.NAMESPACE_POLICY, Scope.TOPIC_POLICY):
        words += ", write" if need.write else ", read"
    return words


def filled(route: Route) -> str:
    """Returns a path that fits the route."""
    return re.sub(r"\{(\w+)\}", lambda match: TOPIC.get(match[1], "1"), route.path)


class Tripwire:
    """Takes the place of a service that a refused call must not reach."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of the service was used")


@asynccontextmanager
async def serving(guard: Security) -> AsyncIterator[tuple[ClientSession, str]]:
    broker: Any = SimpleNamespace(security=guard, service=Tripwire(), http_calls=HttpCalls(), appends=AppendsUnderWay())
    listener = WebListener(broker, lambda: ROUTES)
    port = await listener.start("127.0.0.1", 0)
    try:
        async with ClientSession() as session:
            yield session, f"http://127.0.0.1:{port}"
    finally:
        await listener.close()


class TestAdmit:
    @pytest.mark.parametrize(
        ("need", "status", "reason"),
        [
            (SUPERUSER, 401, "This operation requires super-user access"),
            (TENANT_ADMIN, 401, "Don't have permission to administrate resources on this tenant"),
            (
                topic("UNLOAD"),
                401,
                "Unauthorized to validateTopicOperation for operation [UNLOAD] on topic [persistent://acme/orders/t]",
            ),
            (
                topic_policy("RETENTION", write=True),
                403,
                "Unauthorized to validateTopicPolicyOperation for operation [WRITE] on topic "
                "[persistent://acme/orders/t] on policy [RETENTION]",
            ),
            (
                namespace("CREATE_TOPIC"),
                403,
                "Unauthorized to validateNamespaceOperation for operation [CREATE_TOPIC] on namespace [acme/orders]",
            ),
            (
                namespace_policy("RETENTION", write=False),
                403,
                "Unauthorized to validateNamespacePolicyOperation for operation [READ] on namespace "
                "[acme/orders] on policy [RETENTION]",
            ),
        ],
    )
    async def test_who_may_not_is_told_in_javas_words_and_an_administrator_may(
        self, need: Any, status: int, reason: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert await refusal(need, bearer("alice")) == (status, reason)
        assert "1.2.3.4: denied to role alice" in caplog.text
        assert await refusal(need, bearer("root")) is None
        if need != SUPERUSER:
            assert await refusal(need, bearer("boss")) is None

    async def test_a_grant_is_enough_for_what_it_grants(self) -> None:
        assert await refusal(topic("LOOKUP"), bearer("alice")) is None
        assert await refusal(namespace("GET_TOPICS"), bearer("alice")) is None
        assert (await refusal(topic("SKIP"), bearer("alice")))[0] == 401

    @pytest.mark.parametrize("header", ["Bearer x", "Bearer", "Basic YTpi", "", "Negotiate x"])
    async def test_without_good_credentials_the_answer_is_401(self, header: str) -> None:
        headers = {"Authorization": header} if header else {}
        assert await refusal(topic("LOOKUP"), headers) == (401, "Authentication required")

    async def test_wrong_credentials_are_not_anonymous(self) -> None:
        settings: dict[str, Any] = {"anonymous_user_role": "alice"}
        assert await refusal(topic("LOOKUP"), {}, **settings) is None
        assert await refusal(topic("LOOKUP"), {"Authorization": "Bearer x"}, **settings) is not None
        assert await refusal(topic("LOOKUP"), {"X-Pulsar-Auth-Method-Name": "sasl"}, **settings) is not None

    async def test_without_authorization_every_role_may(self) -> None:
        assert await refusal(SUPERUSER, bearer("stranger"), authorization_enabled=False) is None
        assert (await refusal(SUPERUSER, {}, authorization_enabled=False))[0] == 401

    async def test_a_missing_tenant_is_404_and_a_missing_namespace_grants_nothing(self) -> None:
        gone = TOPIC | {"tenant": "nowhere"}
        assert await refusal(topic("LOOKUP"), bearer("alice"), gone) == (404, "Tenant does not exist")
        gone = TOPIC | {"namespace": "nowhere"}
        assert (await refusal(topic("LOOKUP"), bearer("alice"), gone))[0] == 401
        assert await refusal(topic("LOOKUP"), bearer("root"), gone) is None

    async def test_a_proxy_names_its_client_in_a_header(self) -> None:
        original = {"X-Original-Principal": "alice"}
        assert await refusal(topic("LOOKUP"), bearer("proxy") | original) is None
        assert (await refusal(topic("UNLOAD"), bearer("proxy") | original))[0] == 401
        assert (await refusal(topic("LOOKUP"), bearer("proxy")))[0] == 401
        assert (await refusal(topic("LOOKUP"), bearer("boss") | original))[0] == 401
        assert await refusal(topic("LOOKUP"), bearer("alice") | original) is None

    async def test_metrics_ask_for_credentials_only_when_told_to(self) -> None:
        async def asked(path: str = "/metrics", **settings: Any) -> bool:
            try:
                await admit(security(**settings), EVERYBODY, path, {}, {}, None, "")
            except Refusal:
                return True
            return False

        assert not await asked()
        assert await asked(authenticate_metrics_endpoint=True)
        assert await asked("/metrics/", authenticate_metrics_endpoint=True), "the router takes both for one"

    async def test_a_name_that_is_none_is_nobodys(self) -> None:
        odd = TOPIC | {"tenant": "a b"}
        assert (await refusal(topic("LOOKUP"), bearer("stranger"), odd))[0] in (404, 412)
