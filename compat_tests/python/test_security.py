"""The official client against a server with authentication and authorization: TLS, tokens, passwords, permissions."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from compat_tests.certificates import Authority, Certificate
from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.support import bodies, receive_bodies, send_all
from compat_tests.security_site import NAMESPACE, TENANT, Site, answer_of, running_site, tokens

DENIED = (pulsar.AuthorizationError, pulsar.AuthenticationError)
"""The errors that a refused producer, consumer or lookup raises."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("security")) as made:
        yield made


@pytest.fixture
def client_of(site: Site, make_client: ClientFactory) -> Any:
    """Returns a function that makes a role's client on the port without TLS."""
    return lambda role: make_client(site.server.broker_url, authentication=site.of(role))


def exchange(producing: Any, consuming: Any, topic: str) -> None:
    """Sends messages with one client and receives them with the other."""
    consumer = consuming.subscribe(topic, "s")
    send_all(producing.create_producer(topic), bodies(5))
    assert receive_bodies(consumer, 5) == bodies(5)


class TestTls:
    def options(self, site: Site, certificate: Certificate | None) -> dict[str, Any]:
        options: dict[str, Any] = {"tls_trust_certs_file_path": str(site.authority.path), "tls_validate_hostname": True}
        if certificate is not None:
            paths = str(certificate.certificate), str(certificate.key)
            options["authentication"] = pulsar.AuthenticationTLS(*paths)
        return options

    def test_a_client_certificate_says_who_comes(self, site: Site, make_client: ClientFactory) -> None:
        url = site.server.address.broker_url_tls.replace("127.0.0.1", "localhost")
        admin = make_client(url, **self.options(site, site.admin))
        exchange(admin, admin, site.topic("tls-admin"))
        alice = make_client(url, **self.options(site, site.authority.issue("alice")))
        alice.create_producer(site.topic("tls-alice"))
        with pytest.raises(DENIED):
            alice.subscribe(site.topic("tls-alice"), "s")

    def test_a_token_may_come_over_tls_without_a_client_certificate(
        self, site: Site, make_client: ClientFactory
    ) -> None:
        options = self.options(site, None) | {"authentication": site.of("dave")}
        dave = make_client(site.server.address.broker_url_tls, **options)
        exchange(dave, dave, site.topic("tls-token"))

    def test_large_messages_and_many_pass_through_tls(self, site: Site, make_client: ClientFactory) -> None:
        dave = make_client(
            site.server.address.broker_url_tls, **self.options(site, None) | {"authentication": site.of("dave")}
        )
        topic = site.topic("tls-large")
        contents = [bytes([number]) * 300_000 for number in range(20)] + bodies(2_000)
        consumer = dave.subscribe(topic, "s")
        send_all(dave.create_producer(topic, block_if_queue_full=True), contents)
        assert receive_bodies(consumer, len(contents)) == contents

    def test_a_server_that_the_client_does_not_trust_is_not_spoken_to(
        self, site: Site, make_client: ClientFactory, tmp_path: Path
    ) -> None:
        options = {"tls_trust_certs_file_path": str(Authority(tmp_path, "stranger").path)}
        stranger = make_client(site.server.address.broker_url_tls, operation_timeout_seconds=2, **options)
        with pytest.raises(pulsar.PulsarException):
            stranger.create_producer(site.topic("untrusted"))

    def test_http_over_tls_takes_the_certificates_name_as_role(self, site: Site) -> None:
        context = ssl.create_default_context(cafile=site.authority.path)
        url = f"{site.server.address.web_url_tls}/admin/v2/tenants"
        assert answer_of(urllib.request.Request(url), context)[0] == 401
        context.load_cert_chain(site.admin.certificate, site.admin.key)
        status, text = answer_of(urllib.request.Request(url), context)
        assert status == 200
        assert TENANT in json.loads(text)

    def test_a_lookup_over_http_names_both_addresses(self, site: Site) -> None:
        status, text = site.call(f"/lookup/v2/topic/persistent/{NAMESPACE}/t", role="alice")
        assert status == 200
        answer = json.loads(text)
        assert answer["brokerUrl"] in site.server.address.broker_urls
        assert answer["brokerUrlTls"].startswith("pulsar+ssl://")
        if answer["brokerUrl"] == site.server.broker_url:
            assert answer["brokerUrlTls"] == site.server.address.broker_url_tls

    def test_the_plain_ports_may_be_off(self, site: Site, tmp_path: Path, make_client: ClientFactory) -> None:
        broker = site.authority.issue("broker2")
        settings = {
            "brokerServicePortTls": "0",
            "webServicePortTls": "0",
            "tlsCertificateFilePath": str(broker.certificate),
            "tlsKeyFilePath": str(broker.key),
        }
        with Server(tmp_path, product=TlsOnly(), settings=settings) as server:
            assert server.broker_url == ""
            client = make_client(server.address.broker_url_tls, tls_trust_certs_file_path=str(site.authority.path))
            exchange(client, client, "persistent://public/default/t")
            context = ssl.create_default_context(cafile=site.authority.path)
            health = urllib.request.Request(f"{server.address.web_url_tls}/admin/v2/brokers/health")
            assert answer_of(health, context) == (200, "ok")
            server.assert_no_errors()


def service_urls(site: Site) -> tuple[str, ...]:
    """Returns the addresses at which clients with credentials begin. In a cluster a lookup over HTTP is redirected, and
    the client's libcurl sends no credentials to another broker, Apache's or ours."""
    is_cluster = len(site.server.address.broker_urls) > 1
    return (site.server.broker_url,) if is_cluster else (site.server.broker_url, site.server.web_url)


class TestWho:
    def test_a_token_is_taken_over_both_kinds_of_service_url(self, site: Site, make_client: ClientFactory) -> None:
        for number, url in enumerate(service_urls(site)):
            dave = make_client(url, authentication=site.of("dave"))
            exchange(dave, dave, site.topic(f"token-{number}"))

    def test_a_token_of_magnetar_tokens_is_taken(self, site: Site, make_client: ClientFactory) -> None:
        made = tokens("create", "--secret-key", str(site.secret_key), "--subject", "dave", "--expiry-time", "1h")
        dave = make_client(site.server.broker_url, authentication=pulsar.AuthenticationToken(made))
        dave.create_producer(site.topic("token-cli"))

    def test_a_password_is_taken_over_both_kinds_of_service_url(self, site: Site, make_client: ClientFactory) -> None:
        for number, url in enumerate(service_urls(site)):
            dave = make_client(url, authentication=pulsar.AuthenticationBasic("dave", "pass:word"))
            exchange(dave, dave, site.topic(f"basic-{number}"))

    @pytest.mark.parametrize("kind", ["token", "expired", "password", "user"])
    def test_wrong_credentials_are_refused(self, site: Site, make_client: ClientFactory, kind: str) -> None:
        expired = site.token("dave", -1)
        authentications: dict[str, Callable[[], Any]] = {
            "token": lambda: pulsar.AuthenticationToken(site.token("dave")[:-3] + "AAA"),
            "expired": lambda: pulsar.AuthenticationToken(expired),
            "password": lambda: pulsar.AuthenticationBasic("dave", "password"),
            "user": lambda: pulsar.AuthenticationBasic("nobody", "pass:word"),
        }
        authentication = authentications[kind]()
        before = site.server.log_size()
        client = make_client(site.server.broker_url, authentication=authentication, operation_timeout_seconds=2)
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(site.topic("wrong"))
        wait_until(lambda: "not authenticated by method" in site.server.log_text(before), "the refusal is logged")
        assert "pass:word" not in site.server.log_text(before)

    def test_wrong_credentials_over_http_are_401(self, site: Site) -> None:
        path = f"/admin/v2/persistent/{NAMESPACE}/t/partitions"
        wrong = base64.b64encode(b"dave:password").decode()
        for header in (f"Basic {wrong}", "Bearer nonsense", "Kerberos x"):
            status, text = site.call(path, headers={"Authorization": header})
            assert (status, json.loads(text)) == (401, {"reason": "Authentication required"})

    def test_metrics_count_who_was_let_in_and_who_was_not(self, site: Site) -> None:
        def counted(outcome: str) -> int:
            status, text = site.call("/metrics")
            assert status == 200
            name = f"pulsar_authentication_{outcome}_total"
            (line,) = [line for line in text.splitlines() if line.startswith(name) and 'auth_method="token"' in line]
            assert 'provider_name="AuthenticationProviderToken"' in line
            return int(line.rpartition(" ")[2])

        before = counted("success"), counted("failures")
        site.call("/admin/v2/tenants", role="admin")
        site.call("/admin/v2/tenants", headers={"Authorization": "Bearer nonsense"})
        assert (counted("success"), counted("failures")) == (before[0] + 1, before[1] + 1)

    def test_who_says_nothing_is_anonymous(self, site: Site, make_client: ClientFactory) -> None:
        nobody = make_client(site.server.broker_url)
        with pytest.raises(DENIED):
            nobody.create_producer(site.topic("anonymous"))
        site.call(
            f"/admin/v2/namespaces/{NAMESPACE}/permissions/anonymous", role="carol", method="POST", body=["produce"]
        )
        nobody.create_producer(site.topic("anonymous"))
        site.call(f"/admin/v2/namespaces/{NAMESPACE}/permissions/anonymous", role="carol", method="DELETE")


class TestMay:
    def test_a_role_does_what_it_was_granted_and_no_more(self, site: Site, client_of: Any) -> None:
        topic = site.topic("granted")
        alice, bob = client_of("alice"), client_of("bob")
        exchange(alice, bob, topic)
        before = site.server.log_size()
        with pytest.raises(DENIED):
            alice.subscribe(topic, "s2")
        with pytest.raises(DENIED):
            bob.create_producer(topic)
        log = site.server.log_text(before)
        assert f"denied CONSUME on {topic} to role alice" in log
        assert f"denied PRODUCE on {topic} to role bob" in log

    def test_a_stranger_does_not_even_look_up(self, site: Site, client_of: Any) -> None:
        mallory = client_of("mallory")
        attempts: tuple[Callable[[], Any], ...] = (
            lambda: mallory.create_producer(site.topic("granted")),
            lambda: mallory.subscribe(site.topic("granted"), "s"),
            lambda: mallory.create_reader(site.topic("granted"), pulsar.MessageId.earliest),
            lambda: mallory.get_topic_partitions(site.topic("granted")),
        )
        for attempt in attempts:
            with pytest.raises(DENIED):
                attempt()

    def test_a_topic_that_does_not_exist_is_not_made_for_a_stranger(self, site: Site, client_of: Any) -> None:
        with pytest.raises(DENIED):
            client_of("mallory").create_producer(site.topic("never-made"))
        status, text = site.call(f"/admin/v2/persistent/{NAMESPACE}", role="admin")
        assert status == 200
        assert "never-made" not in text

    @pytest.mark.parametrize(
        ("method", "path", "body", "least", "status", "reason"),
        [
            ("GET", "/admin/v2/tenants", None, "admin", 401, "This operation requires super-user access"),
            ("PUT", "/admin/v2/tenants/other", {"allowedClusters": ["standalone"]}, "admin", 401, "super-user"),
            ("GET", f"/admin/v2/namespaces/{NAMESPACE}", None, "carol", 403, "validateNamespacePolicyOperation"),
            ("GET", f"/admin/v2/persistent/{NAMESPACE}/granted/stats", None, "bob", 401, "validateTopicOperation"),
            ("GET", f"/admin/v2/persistent/{NAMESPACE}", None, "alice", 403, "validateNamespaceOperation"),
        ],
    )
    def test_a_call_is_refused_with_javas_code_and_text(
        self, site: Site, client_of: Any, method: str, path: str, body: Any, least: str, status: int, reason: str
    ) -> None:
        client_of("dave").create_producer(site.topic("granted"))
        got, text = site.call(path, role="mallory", method=method, body=body)
        assert got == status, text
        assert reason in json.loads(text)["reason"]
        assert site.call(path, role=least, method=method, body=body)[0] in (200, 204)

    def test_a_permission_that_is_taken_away_holds_for_the_next_request(self, site: Site, client_of: Any) -> None:
        path = f"/admin/v2/namespaces/{NAMESPACE}/permissions/eve"
        eve = client_of("eve")
        assert site.call(path, role="carol", method="POST", body=["produce"])[0] in (200, 204)
        eve.create_producer(site.topic("revoked"))
        assert site.call(path, role="carol", method="DELETE")[0] in (200, 204)
        with pytest.raises(DENIED):
            eve.create_producer(site.topic("revoked-2"))

    def test_who_may_no_longer_is_disconnected_and_the_others_stay(self, site: Site, client_of: Any) -> None:
        topic = site.topic("taken-away")
        path = f"/admin/v2/namespaces/{NAMESPACE}/permissions/frank"
        assert site.call(path, role="carol", method="POST", body=["produce", "consume"])[0] in (200, 204)
        frank, dave = client_of("frank"), client_of("dave")
        theirs = frank.create_producer(topic, send_timeout_millis=10_000)
        consumer = frank.subscribe(topic, "frank")
        staying = dave.create_producer(topic)
        send_all(theirs, bodies(2))
        receive_bodies(consumer, 2)
        before = site.server.log_size()
        assert site.call(path, role="carol", method="DELETE")[0] in (200, 204)
        wait_until(
            lambda: site.server.log_text(before).count("role frank is no longer allowed to: disconnected") == 2,
            "producer and consumer are disconnected",
        )
        wait_until(lambda: not theirs.is_connected() and not consumer.is_connected(), "the client knows")
        with pytest.raises(pulsar.PulsarException):
            theirs.send(b"too late")
        send_all(staying, bodies(2))
        assert "role dave is no longer" not in site.server.log_text(before)

    def test_permissions_survive_a_restart_and_bob_still_may_not_produce(self, site: Site, client_of: Any) -> None:
        site.server.kill()
        site.server.start()
        exchange(client_of("alice"), client_of("bob"), site.topic("restarted"))
        with pytest.raises(DENIED):
            client_of("bob").create_producer(site.topic("restarted"))


class TestRefresh:
    def test_an_expiring_token_is_renewed_without_a_break(self, site: Site, make_client: ClientFactory) -> None:
        given: list[str] = []

        def supply() -> str:
            given.append(site.token("dave", 4))
            return given[-1]

        before = site.server.log_size()
        client = make_client(site.server.broker_url, authentication=pulsar.AuthenticationToken(supply))
        producer = client.create_producer(site.topic("renewed"))
        wait_until(lambda: site.server.log_text(before).count("of role dave renewed") >= 2, "two renewals")
        send_all(producer, bodies(3))
        log = site.server.log_text(before)
        assert "was not renewed" not in log
        assert "not authenticated" not in log
        assert log.count(f"of {site.topic('renewed')} connected") == 1, "it never came back: it was never gone"
        assert not any(token in log for token in given)

    def test_a_token_that_is_not_renewed_closes_the_connection(self, site: Site, make_client: ClientFactory) -> None:
        token = site.token("dave", 6)
        before = site.server.log_size()
        client = make_client(site.server.broker_url, authentication=pulsar.AuthenticationToken(token))
        client.create_producer(site.topic("lapsed"))
        wait_until(lambda: "the token expired" in site.server.log_text(before), "the old token is refused")


class TlsOnly:
    """Runs Magnetar without its plain ports."""

    name = "magnetar"
    is_peer = False

    def command(self, folder: Path, ports: tuple[int, int], settings: Any) -> list[str]:
        from compat_tests.products import Magnetar

        command = Magnetar().command(folder, ports, settings)
        for option in ("--broker-port", "--web-port"):
            command[command.index(option) + 1] = "off"
        return command

    def wait_ready(self, process: Any, ports: tuple[int, int], deadline: float) -> Any:
        from compat_tests.products import Magnetar

        return Magnetar().wait_ready(process, ports, deadline)
