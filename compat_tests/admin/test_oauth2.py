"""The tools log in by OAuth 2.0 at a server that knows the issuer's public key, over HTTP and over the client port."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.harness import Server
from compat_tests.oauth2_issuer import CLIENT, Issuer, key_file, running_issuer
from compat_tests.products import interpreter

COMMAND_SECONDS = 60
AUDIENCE = "urn:our-cluster"
PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as made:
        yield made


@pytest.fixture(scope="module")
def server(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("oauth2")
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": PROVIDER,
        "superUserRoles": CLIENT,
        "tokenPublicKey": f"file://{issuer.public_key(folder)}",
        "tokenAudienceClaim": "aud",
        "tokenAudience": AUDIENCE,
    }
    with Server(folder, settings=settings) as made:
        yield made
        made.assert_no_errors()


def run(server: Server, issuer: Issuer, folder: Path, *words: str, **more: str) -> tuple[int, str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("MAGNETAR_", "PULSAR_"))}
    parameters = {"issuerUrl": issuer.url, "privateKey": f"file://{key_file(folder)}", "audience": AUDIENCE, **more}
    environment = {
        **clean,
        "no_proxy": "*",
        "XDG_CONFIG_HOME": str(folder),
        "MAGNETAR_ADMIN_URL": server.web_url,
        "MAGNETAR_SERVICE_URL": server.broker_url,
        "MAGNETAR_AUTH_PLUGIN": "org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2",
        "MAGNETAR_AUTH_PARAMS": json.dumps(parameters),
    }
    done = subprocess.run(
        [*interpreter(), "-m", "magnetar", *words],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


def test_an_admin_command_logs_in_with_a_token_of_the_issuer(server: Server, issuer: Issuer, tmp_path: Path) -> None:
    code, out, error = run(server, issuer, tmp_path, "admin", "tenants", "list")
    assert (code, out.split()) == (0, ["public", "pulsar"]), error


def test_messages_are_published_and_consumed(server: Server, issuer: Issuer, tmp_path: Path) -> None:
    topic = f"orders-{uuid.uuid4().hex}"
    code, _, error = run(server, issuer, tmp_path, "produce", topic, "-m", "hello")
    assert code == 0, error
    code, out, error = run(server, issuer, tmp_path, "read", topic, "--from", "earliest", "-n", "1")
    assert code == 0, error
    assert "hello" in out


def test_a_token_for_another_audience_is_refused(server: Server, issuer: Issuer, tmp_path: Path) -> None:
    code, out, error = run(server, issuer, tmp_path, "admin", "tenants", "list", audience="urn:another")
    assert (code, out) == (1, "")
    assert "Reason: " in error
    assert run(server, issuer, tmp_path, "produce", "t", "-m", "hello", audience="urn:another")[0] == 1
