"""How the data source and the jobs say who they are: passwords and certificates, on real servers."""

import json
import pickle
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from compat_tests.certificates import Authority
from compat_tests.harness import Server, free_port
from compat_tests.oauth2_issuer import CLIENT, Issuer, key_file, running_issuer
from magnetar.spark.jobs.job_arguments import parser, service_options
from magnetar.spark.source.client.admin_client import AdminClient, AdminError
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.options import BadOption, Options, ServiceAddress, address_of
from pulsar_proto.errors import AuthenticationFault

PROVIDERS = "org.apache.pulsar.broker.authentication"
PLUGINS = "org.apache.pulsar.client.impl.auth"
TOPIC = "persistent://public/default/guarded"


def address(url: str, **more: str) -> ServiceAddress:
    return address_of(Options({"service.url": url, **{f"pulsar.client.{name}": value for name, value in more.items()}}))


def partitions(given: ServiceAddress) -> list[str]:
    client = PulsarClient(given.service_url, given.login)
    try:
        return client.partitions(TOPIC, create=True)
    finally:
        client.close()


def basic(password: str) -> dict[str, str]:
    params = json.dumps({"userId": "admin", "password": password})
    return {"authPluginClassName": f"{PLUGINS}.AuthenticationBasic", "authParams": params}


def oauth2(issuer: Issuer, key: str) -> dict[str, str]:
    params = json.dumps({"issuerUrl": issuer.url, "privateKey": key})
    return {"authPluginClassName": f"{PLUGINS}.oauth2.AuthenticationOAuth2", "authParams": params}


@pytest.mark.process
def test_a_name_and_a_password_open_both_ports(tmp_path: Path) -> None:
    users = tmp_path / "htpasswd"
    users.write_text(f"admin:{bcrypt.hashpw(b'sesame', bcrypt.gensalt(4)).decode()}\n")
    settings = {
        "authenticationEnabled": "true",
        "authenticationProviders": f"{PROVIDERS}.AuthenticationProviderBasic",
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
        "basicAuthConf": f"file://{users}",
    }
    with Server(tmp_path / "server", settings=settings) as server:
        right, wrong = (address(server.broker_url, **basic(password)) for password in ("sesame", "guess"))
        assert partitions(right) == [TOPIC]
        with pytest.raises(AuthenticationFault):
            partitions(wrong)
        assert AdminClient(server.web_url, right.login).call("GET", "tenants")
        with pytest.raises(AdminError, match="HTTP 401"):
            AdminClient(server.web_url, wrong.login).call("GET", "tenants")


@pytest.mark.process
def test_a_certificate_says_who_the_client_is(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    broker, admin, port = authority.issue("localhost"), authority.issue("admin"), free_port()
    settings = {
        "brokerServicePortTls": str(port),
        "tlsCertificateFilePath": str(broker.certificate),
        "tlsKeyFilePath": str(broker.key),
        "tlsTrustCertsFilePath": str(authority.path),
        "authenticationEnabled": "true",
        "authenticationProviders": f"{PROVIDERS}.AuthenticationProviderTls",
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
    }
    with Server(tmp_path / "server", settings=settings):
        url, trust = f"pulsar+ssl://localhost:{port}", {"tlsTrustCertsFilePath": str(authority.path)}
        plugin = {"authPluginClassName": f"{PLUGINS}.AuthenticationTls"}
        params = {"authParams": f"tlsCertFile:{admin.certificate},tlsKeyFile:{admin.key}"}
        files = {"tlsCertificateFilePath": str(admin.certificate), "tlsKeyFilePath": str(admin.key)}
        for more in (params, files):
            assert partitions(address(url, **trust, **plugin, **more)) == [TOPIC]
        with pytest.raises(AuthenticationFault):
            partitions(address(url, **trust))


@pytest.mark.process
def test_an_issuer_of_oauth2_gives_the_token_for_both_ports_once(tmp_path: Path) -> None:
    with running_issuer() as issuer:
        settings = {
            "authenticationEnabled": "true",
            "authenticationProviders": f"{PROVIDERS}.AuthenticationProviderToken",
            "authorizationEnabled": "true",
            "superUserRoles": CLIENT,
            "tokenPublicKey": f"file://{issuer.public_key(tmp_path)}",
        }
        with Server(tmp_path / "server", settings=settings) as server:
            right = address(server.broker_url, **oauth2(issuer, f"file://{key_file(tmp_path)}"))
            for each in (right, pickle.loads(pickle.dumps(right))):  # Spark pickles the sink's address for the tasks
                assert partitions(each) == [TOPIC]
                assert AdminClient(server.web_url, each.login).call("GET", "tenants")
            assert len(issuer.forms) == 1
            wrong = address(server.broker_url, **oauth2(issuer, f"file://{key_file(tmp_path, 'guess')}"))
            with pytest.raises(AuthenticationFault, match="refused: invalid_client: who are you") as refused:
                partitions(wrong)
    assert "guess" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"authPluginClassName": "basic", "authParams": "admin:sesame"}, "AuthenticationBasic needs"),
        ({"authPluginClassName": "basic", "authParams": '{"userId": "sesame"}'}, "AuthenticationBasic needs"),
        ({"authPluginClassName": "tls", "authParams": "tlsCertFile:/a"}, "AuthenticationTls needs tlsCertFile"),
        ({"authPluginClassName": "oauth2", "authParams": "sesame"}, "AuthenticationOAuth2 needs"),
        ({"authPluginClassName": "oauth2", "authParams": '{"privateKey": 5}'}, "AuthenticationOAuth2 needs"),
        ({"authPluginClassName": "oauth2", "authParams": '{"privateKey": "sesame"}'}, "OAuth 2.0 needs issuerUrl"),
        ({"authPluginClassName": "x.AuthenticationSasl"}, "AuthenticationSasl is not supported; those are Auth"),
    ],
)
def test_a_login_that_cannot_work_is_refused_without_telling_secrets(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadOption, match=sentence) as refused:
        address("pulsar://localhost:6650", **given)
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "plugin"),
    [
        ([], None),
        (["--auth-params", "token:t"], f"{PLUGINS}.AuthenticationToken"),
        (["--auth-plugin", "AuthenticationBasic", "--auth-params", "{}"], f"{PLUGINS}.AuthenticationBasic"),
        (["--auth-plugin", "AuthenticationOAuth2"], f"{PLUGINS}.oauth2.AuthenticationOAuth2"),
        (["--auth-plugin", "tls", "--tls-cert", "c", "--tls-key", "k"], "tls"),
    ],
)
def test_jobs_take_every_login_of_the_source(words: list[str], plugin: str | None) -> None:
    arguments: Any = parser("audit", "", "").parse_args(["--service-url", "pulsar://localhost:6650", *words])
    given = service_options(arguments)
    assert given.get("pulsar.client.authPluginClassName") == plugin
    assert given.get("pulsar.client.tlsKeyFilePath") == ("k" if "k" in words else None)
