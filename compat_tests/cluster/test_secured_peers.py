"""Brokers that show credentials to each other: a token in a file, and over TLS a certificate. Whoever shows none is
refused, so what works here was done with the brokers' own credentials."""

import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest

from compat_tests.certificates import Authority
from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.cluster.topic_limits import TOPICS, topic
from compat_tests.redirects import FollowRedirects

PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
PLUGIN = "org.apache.pulsar.client.impl.auth.Authentication"
SECRET = b"a secret of the cluster's brokers, for this test only"


def token(role: str) -> str:
    return jwt.encode({"sub": role, "exp": time.time() + 600}, SECRET, algorithm="HS256")


@dataclass
class Secured:
    """A cluster, which this test calls as its administrator."""

    cluster: Cluster

    def call(self, broker: BrokerSeat, path: str, method: str = "GET", body: Any = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(broker.web_url + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", f"Bearer {token('admin')}")
        opener = urllib.request.build_opener(FollowRedirects)
        with opener.open(request, timeout=60) as answer:
            return str(answer.read().decode())

    def set_all(self, first: int) -> list[int]:
        brokers = self.cluster.brokers
        for number in range(TOPICS):
            self.call(brokers[number % len(brokers)], f"{topic(number)}/maxProducers", "POST", first + number)
        return [first + number for number in range(TOPICS)]

    def limits(self, broker: BrokerSeat) -> list[int]:
        return [json.loads(self.call(broker, f"{topic(number)}/maxProducers")) for number in range(TOPICS)]


def token_settings(folder: Path) -> dict[str, str]:
    return {
        "brokerClientAuthenticationPlugin": f"{PLUGIN}Token",
        "brokerClientAuthenticationParameters": f"file://{folder / 'token'}",
    }


def certificate_settings(folder: Path, authority: Authority) -> dict[str, str]:
    broker = authority.issue("broker", "client")
    return {
        "tlsTrustCertsFilePath": str(authority.path),
        "brokerClientAuthenticationPlugin": f"{PLUGIN}Tls",
        "brokerClientAuthenticationParameters": f"tlsCertFile:{broker.certificate},tlsKeyFile:{broker.key}",
    }


@pytest.fixture(params=["token", "certificate"])
def secured(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Secured]:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    (tmp_path / "token").write_text(token("broker"))
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": f"{PROVIDER}Token,{PROVIDER}Tls",
        "superUserRoles": "broker,admin",
        "tokenSecretKey": f"file://{secret}",
    }
    if request.param != "token":
        authority = Authority(tmp_path)
        server = authority.issue("server")
        settings |= {
            "brokerServicePortTls": "0",
            "webServicePortTls": "0",
            "tlsCertificateFilePath": str(server.certificate),
            "tlsKeyFilePath": str(server.key),
            "brokerClientTlsEnabled": "true",
            "brokerClientTrustCertsFilePath": str(authority.path),
            "tlsHostnameVerificationEnabled": "true",
        }
    own = certificate_settings(tmp_path, authority) if request.param == "certificate" else token_settings(tmp_path)
    with Cluster(tmp_path, bookies=1, brokers=2, settings=settings | own) as cluster:
        yield Secured(cluster)


def test_brokers_work_together_with_their_own_credentials(secured: Secured) -> None:
    one, two = secured.cluster.brokers
    for number in range(TOPICS):
        secured.call(one, topic(number), "PUT")
    expected = secured.set_all(10)
    assert secured.limits(one) == secured.limits(two) == expected
    for broker in (one, two):
        assert secured.call(broker, "/admin/v2/brokers/health") == "ok"
    secured.call(one, "/admin/v2/namespaces/public/default/unload", "PUT")
    assert secured.limits(one) == secured.limits(two) == expected
