"""A server with authentication and authorization for the tests of clients: TLS, tokens, passwords, permissions."""

import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import jwt
import pulsar

from compat_tests.certificates import Authority, Certificate
from compat_tests.harness import Server
from compat_tests.products import interpreter
from compat_tests.redirects import FollowRedirects

PACKAGE = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
TENANT = "secured"
NAMESPACE = f"{TENANT}/orders"
REFRESH_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Site:
    """A server where alice may produce, bob may consume, carol administrates the tenant and `admin` is the
    superuser."""

    server: Server
    authority: Authority
    admin: Certificate
    secret_key: Path

    def token(self, role: str, seconds: float = 600) -> str:
        """Makes a token for the role that is valid for this many seconds."""
        claims = {"sub": role, "exp": time.time() + seconds}
        return jwt.encode(claims, self.secret_key.read_bytes(), algorithm="HS256")

    def of(self, role: str) -> Any:
        return pulsar.AuthenticationToken(self.token(role))

    def call(
        self, path: str, *, role: str | None = None, method: str = "GET", body: Any = None, headers: Any = None
    ) -> tuple[int, str]:
        """Makes an HTTP call without TLS and returns its status and text."""
        request = urllib.request.Request(f"{self.server.web_url}{path}", method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if role is not None:
            request.add_header("Authorization", f"Bearer {self.token(role)}")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        return answer_of(request)

    def topic(self, name: str) -> str:
        return f"persistent://{NAMESPACE}/{name}"


def tokens(*arguments: str) -> str:
    command = [*interpreter(), "-m", "magnetar", "tokens", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def answer_of(request: urllib.request.Request, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    try:
        opener = urllib.request.build_opener(FollowRedirects, urllib.request.HTTPSHandler(context=context))
        with opener.open(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def prepare(site: Site) -> None:
    both = ["produce", "consume"]
    grants = {"alice": ["produce"], "bob": ["consume"], "dave": both}
    for path, body in (
        (f"/admin/v2/tenants/{TENANT}", {"adminRoles": ["carol"], "allowedClusters": ["standalone"]}),
        (f"/admin/v2/namespaces/{NAMESPACE}", {"auth_policies": {"namespace_auth": grants}}),
    ):
        status, text = site.call(path, role="admin", method="PUT", body=body)
        assert status in (200, 204), text


@contextmanager
def running_site(folder: Path) -> Iterator[Site]:
    """Runs the prepared server. At the end it is stopped and its log is checked."""
    authority = Authority(folder)
    broker = authority.issue("broker")
    key = folder / "secret.key"
    tokens("create-secret-key", "--output", str(key))
    brokers_token = tokens("create", "--secret-key", str(key), "--subject", "admin")
    passwords = folder / ".htpasswd"
    passwords.write_text(f"dave:{bcrypt.hashpw(b'pass:word', bcrypt.gensalt(5)).decode()}\n")
    settings = {
        "brokerServicePortTls": "0",
        "webServicePortTls": "0",
        "tlsCertificateFilePath": str(broker.certificate),
        "tlsKeyFilePath": str(broker.key),
        "tlsTrustCertsFilePath": str(authority.path),
        "authenticationEnabled": "true",
        "authenticationProviders": f"{PACKAGE}Tls,{PACKAGE}Token,{PACKAGE}Basic",
        "authenticationRefreshCheckSeconds": str(REFRESH_SECONDS),
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
        "anonymousUserRole": "anonymous",
        "tokenSecretKey": f"file://{key}",
        "basicAuthConf": str(passwords),
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{brokers_token}",
    }
    with Server(folder, settings=settings) as server:
        made = Site(server, authority, authority.issue("admin"), key)
        prepare(made)
        yield made
        server.assert_no_errors()
