"""Apache's Java client against a server with authentication. Its TLS and its ways to authenticate are not those of the
other clients."""

import subprocess
from pathlib import Path

import pytest

from compat_tests.certificates import Authority
from compat_tests.java.client_jars import CLIENT
from compat_tests.maven_jars import class_path, need_java
from compat_tests.security_site import running_site

PROGRAM = Path(__file__).parent / "Secure.java"
DEADLINE_SECONDS = 120


@pytest.mark.slow
def test_the_java_client_comes_in_by_certificate_token_and_password_and_by_nothing_else(tmp_path: Path) -> None:
    need_java()
    jars = class_path("pulsar-java-client", CLIENT)
    with running_site(tmp_path) as site:
        (tmp_path / "other").mkdir()
        stranger = Authority(tmp_path / "other", "stranger").issue("admin")
        stranger.certificate.rename(tmp_path / "stranger.cert.pem")
        stranger.key.rename(tmp_path / "stranger.key.pem")
        address = site.server.address
        urls = [address.broker_url, address.broker_url_tls, address.web_url_tls]
        command = [
            "java",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            jars,
            str(PROGRAM),
            *urls,
            str(tmp_path),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line and " " not in line)
        assert int(said.pop("tokens_made")) >= 2, "a short token was renewed"
        refused = {name: result for name, result in said.items() if result != "ok"}
        assert set(said) - set(refused) == {"tls_certificate", "tls_token", "https_lookup", "password", "renewed"}
        assert refused.pop("stranger_certificate") == "PulsarClientException"
        assert refused == {
            "wrong_password": "AuthenticationException",
            "may_not_consume": "AuthorizationException",
            "may_not_produce": "AuthorizationException",
        }
