"""`magnetar admin` logs in: with tokens, a password and a client certificate, over HTTP and HTTPS, and through a
redirect."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.products import interpreter
from compat_tests.security_site import NAMESPACE, Site, running_site

pytestmark = pytest.mark.slow

COMMAND_SECONDS = 60
JAVA = "org.apache.pulsar.client.impl.auth.Authentication"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site")) as made:
        yield made


def run(url: str, *words: str, folder: Path, **environment: str) -> tuple[int, str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("MAGNETAR_", "PULSAR_"))}
    done = subprocess.run(
        [*interpreter(), "-m", "magnetar", "admin", "--admin-url", url, *words],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
        env={**clean, "XDG_CONFIG_HOME": str(folder), **environment},
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_token_comes_from_a_file_a_variable_or_an_option(site: Site, tmp_path: Path) -> None:
    url, token = site.server.web_url, site.token("carol")
    file = tmp_path / "token"
    file.write_text(token + "\n")
    words = ("namespaces", "permissions", NAMESPACE)
    by_file = run(url, "--token-file", str(file), *words, folder=tmp_path)
    assert by_file[0] == 0, by_file
    assert "alice    [produce]" in by_file[1]
    assert run(url, *words, folder=tmp_path, MAGNETAR_TOKEN=token) == by_file
    option = ("--auth-plugin", f"{JAVA}Token", "--auth-params", f"token:{token}")
    assert run(url, *option, *words, folder=tmp_path) == by_file


def test_who_may_not_is_told_so_and_the_token_is_not_shown(site: Site, tmp_path: Path) -> None:
    token = site.token("bob")
    code, out, error = run(site.server.web_url, "tenants", "create", "t", folder=tmp_path, MAGNETAR_TOKEN=token)
    assert (code, out) == (1, "")
    assert "Reason: " in error
    assert token not in error


def test_a_name_and_a_password_log_in(site: Site, tmp_path: Path) -> None:
    words = ("topics", "list", NAMESPACE)
    parameters = '{"userId": "dave", "password": "pass:word"}'
    login = {"MAGNETAR_AUTH_PLUGIN": "basic", "MAGNETAR_AUTH_PARAMS": parameters}
    assert run(site.server.web_url, *words, folder=tmp_path, **login)[0] == 0
    login["MAGNETAR_AUTH_PARAMS"] = parameters.replace("pass:word", "wrong")
    assert run(site.server.web_url, *words, folder=tmp_path, **login)[0] == 1


def test_a_certificate_logs_in_and_the_server_s_is_judged(site: Site, tmp_path: Path) -> None:
    port = site.server.address.web_url_tls
    login = (
        *("--auth-plugin", f"{JAVA}Tls"),
        *("--auth-params", f"tlsCertFile:{site.admin.certificate},tlsKeyFile:{site.admin.key}"),
    )
    code, _, error = run(port, *login, "tenants", "list", folder=tmp_path)
    assert code == 1
    assert "certificate" in error.lower()
    trust = ("--tls-trust-cert-path", str(site.authority.path), "--tls-enable-hostname-verification")
    code, out, error = run(port, *trust, *login, "tenants", "list", folder=tmp_path)
    assert (code, error) == (0, "")
    assert "secured" in out.split()
