"""The commands of `clusters` that take several calls, and the body of a cluster."""

from typing import Any
from urllib.parse import quote

from magnetar.server.tools.admin.admin_errors import CommandError, UsageError
from magnetar.server.tools.admin.command_table import Call, Values
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.admin.name_rules import parse_namespace, parse_topic

CONFIG_BYTES_MAX = 1 << 20
_DEFAULTS = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
}
"""The fields that Java's ClusterDataImpl sends although nobody gave them."""
_FIELDS = {
    "url": "serviceUrl",
    "url-secure": "serviceUrlTls",
    "broker-url": "brokerServiceUrl",
    "broker-url-secure": "brokerServiceUrlTls",
    "proxy-url": "proxyServiceUrl",
    "auth-plugin": "authenticationPlugin",
    "auth-parameters": "authenticationParameters",
    "proxy-protocol": "proxyProtocol",
    "tls-enable": "brokerClientTlsEnabled",
    "tls-allow-insecure": "tlsAllowInsecureConnection",
    "tls-enable-keystore": "brokerClientTlsEnabledWithKeyStore",
    "tls-trust-store-type": "brokerClientTlsTrustStoreType",
    "tls-trust-store": "brokerClientTlsTrustStore",
    "tls-trust-store-pwd": "brokerClientTlsTrustStorePassword",
    "tls-key-store-type": "brokerClientTlsKeyStoreType",
    "tls-key-store": "brokerClientTlsKeyStore",
    "tls-key-store-pwd": "brokerClientTlsKeyStorePassword",
    "tls-trust-certs-filepath": "brokerClientTrustCertsFilePath",
    "tls-key-filepath": "brokerClientKeyFilePath",
    "tls-certs-filepath": "brokerClientCertificateFilePath",
    "tls-factory-plugin": "brokerClientSslFactoryPlugin",
    "tls-factory-plugin-params": "brokerClientSslFactoryPluginParams",
    "listener-name": "listenerName",
}


def cluster_data(values: Values) -> dict[str, Any]:
    """Returns a cluster's data: that of the file, with the options in place of what the file says."""
    body = dict(_DEFAULTS)
    if values["cluster-config-file"] is not None:
        body |= _config_file(values["cluster-config-file"])
    body |= {field: values[key] for key, field in _FIELDS.items() if values[key] is not None}
    store = ("brokerClientTlsTrustStoreType", "brokerClientTlsTrustStore", "brokerClientTlsTrustStorePassword")
    uses_store = body["brokerClientTlsEnabled"] and body["brokerClientTlsEnabledWithKeyStore"]
    if uses_store and not all(body.get(field) for field in store):
        raise CommandError(
            "You must specify tls-trust-store-type, tls-trust-store and tls-trust-store-pwd when enable "
            "tls-enable-keystore"
        )
    return body


def _config_file(path: str) -> dict[str, Any]:
    """Reads JSON, or lines of `key: value` as YAML has them for a flat object."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(CONFIG_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--cluster-config-file: {path}: {error}") from None
    if text.lstrip().startswith("{"):
        try:
            read = json.loads(text)
        except ValueError as error:
            raise UsageError(f"--cluster-config-file: {path} is not JSON: {error}") from None
        return dict(read)
    read = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not line.strip() or line.lstrip().startswith("#") or line.strip() == "---":
            continue
        if not colon or key != key.strip():
            raise UsageError(f"--cluster-config-file: {path}: '{line.strip()}' is not `key: value`")
        value = value.strip().strip("'\"")
        read[key] = {"true": True, "false": False}.get(value, value)
    return read


def list_clusters(invocation: Invocation) -> None:
    """Asks for the broker's configuration, which names its cluster, only when that is to be marked."""
    clusters = invocation.get("/admin/v2/clusters")
    if invocation["current"]:
        own = invocation.get("/admin/v2/brokers/configuration/runtime").get("clusterName")
        clusters = [f"{name}(*)" if name == own else name for name in clusters]
    invocation.show(clusters)


def delete_cluster(invocation: Invocation) -> None:
    if invocation["all"]:
        for tenant in invocation.get("/admin/v2/tenants"):
            place = quote(tenant, safe="")
            for namespace in invocation.get(f"/admin/v2/namespaces/{place}"):
                _delete_namespace(invocation, namespace)
            invocation.http.delete(f"/admin/v2/tenants/{place}", [("force", "false")])
    invocation.call(Call("DELETE", "/admin/v2/clusters/{cluster}"))


def _delete_namespace(invocation: Invocation, text: str) -> None:
    namespace = parse_namespace(text)
    forced = [("force", "true"), ("deleteSchema", "true")]
    for below, ending in (("/partitioned", "/partitions"), ("", "")):
        for domain in ("persistent", "non-persistent"):
            path = f"{namespace.root}/{domain}/{namespace.text}{below}"
            for topic in invocation.http.get(path, [("includeSystemTopic", "false")]).json():
                invocation.http.delete(parse_topic(topic).path + ending, forced)
    invocation.http.delete(namespace.path, [("force", "true")])
