"""A fresh Magnetar as the suite wants its server: configuration, keys, tenants, namespaces and permissions.

Upstream sets up the same in `build-support/` and `tests/test-conf/` of apache/pulsar-client-python: standalone-ssl.conf
and the script that starts the server.
"""

import json
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from compat_tests.harness import Server
from compat_tests.products import interpreter

PROVIDERS = ("Tls", "Token", "Basic")
CLUSTER = "standalone"
SUPERUSER = "superUser"
TOKEN_SUBJECT = "token-principal"
ANONYMOUS = "anonymous"
SECONDS_MAX = 30


def settings(tests: Path, secret_key: Path) -> dict[str, str]:
    """Returns the server's configuration. `tests` is the suite's folder, whose certificates and password file are
    used."""
    conf = tests / "test-conf"
    package = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
    return {
        "advertisedAddress": "localhost",
        "brokerServicePortTls": "0",
        "webServicePortTls": "0",
        "tlsCertificateFilePath": str(conf / "broker-cert.pem"),
        "tlsKeyFilePath": str(conf / "broker-key.pem"),
        "tlsTrustCertsFilePath": str(conf / "cacert.pem"),
        "tlsAllowInsecureConnection": "false",
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": ",".join(package + name for name in PROVIDERS),
        "anonymousUserRole": ANONYMOUS,
        "superUserRoles": f"localhost,{SUPERUSER},admin",
        "tokenSecretKey": f"file://{secret_key}",
        "basicAuthConf": str(conf / ".htpasswd"),
        "maxMessageSize": "1024000",
        "acknowledgmentAtBatchIndexLevelEnabled": "true",
        "allowAutoTopicCreation": "true",
        "allowAutoTopicCreationType": "non-partitioned",
        "defaultNumPartitions": "1",
        "managedLedgerDefaultEnsembleSize": "1",
        "managedLedgerDefaultWriteQuorum": "1",
        "managedLedgerDefaultAckQuorum": "1",
        "subscriptionKeySharedUseConsistentHashing": "false",
        "topicLevelPoliciesEnabled": "false",
    }


def tokens(*arguments: str) -> str:
    """Runs `magnetar tokens` and returns what it prints."""
    command = [*interpreter(), "-m", "magnetar", "tokens", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def upstream_urls(server: Server) -> dict[str, str]:
    """Maps the suite's addresses to those of the server."""
    address = server.address
    return {
        "localhost:6650": f"localhost:{address.broker_port}",
        "localhost:6651": address.broker_url_tls.partition("://")[2],
        "localhost:8080": f"localhost:{address.web_port}",
        "localhost:8443": address.web_url_tls.partition("://")[2],
    }


def prepare(server: Server, token: str) -> None:
    """Makes tenants, namespaces and permissions. Raises RuntimeError, which names the call that failed."""
    base = f"http://localhost:{server.address.web_port}/admin/v2"
    both = ["produce", "consume"]
    cluster = {
        "serviceUrl": server.web_url,
        "serviceUrlTls": server.address.web_url_tls,
        "brokerServiceUrl": server.broker_url,
        "brokerServiceUrlTls": server.address.broker_url_tls,
    }
    call(f"{base}/clusters/{CLUSTER}", token, cluster)
    call(f"{base}/tenants/public", token, {"adminRoles": [ANONYMOUS], "allowedClusters": [CLUSTER]}, update=True)
    for namespace in ("public/default", "public/default-2"):
        _namespace(base, token, namespace, ANONYMOUS, both)
    call(f"{base}/tenants/private", token, {"adminRoles": [], "allowedClusters": [CLUSTER]})
    _namespace(base, token, "private/auth", TOKEN_SUBJECT, both)


def _namespace(base: str, token: str, namespace: str, role: str, actions: list[str]) -> None:
    policies = {"auth_policies": {"namespace_auth": {role: actions}}, "replication_clusters": [CLUSTER]}
    if call(f"{base}/namespaces/{namespace}", token, policies) == 409:
        call(f"{base}/namespaces/{namespace}/permissions/{role}", token, actions, method="POST")


def call(url: str, token: str, body: Any, *, method: str = "PUT", update: bool = False) -> int:
    """Makes a call and returns its status: 2xx, or 409 when the object exists, which is then changed if `update` is
    set. Raises RuntimeError for any other status."""
    request = urllib.request.Request(url, json.dumps(body).encode(), method=method)
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise RuntimeError(f"{method} {url}: {error.code} {error.read().decode(errors='replace')}") from None
        return call(url, token, body, method="POST") if update else 409
    except OSError as error:
        raise RuntimeError(f"{method} {url}: {error}") from None
