"""The calls on clusters, their peers and their failure domains. Source: ClustersBase; answers recorded from Pulsar
4.0.7.

A cluster to which a namespace is replicated cannot be deleted. Apache's broker deletes such a cluster, and leaves the
namespace with the name of a cluster that does not exist."""

import re
from collections.abc import Callable
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.errors import NodeExistsError, NoNodeError
from magnetar.metadata.store import MetadataStore
from magnetar.server.admin import bodies, json_records
from magnetar.server.admin.tenant_calls import NAME
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import EVERYBODY, SUPERUSER
from magnetar.server.web.places import Place

GLOBAL = "global"
"""The cluster name that stands for all clusters. The list of clusters leaves this name out."""

NOT_FOUND = "Cluster does not exist"

TEXTS = (
    "serviceUrl",
    "serviceUrlTls",
    "brokerServiceUrl",
    "brokerServiceUrlTls",
    "proxyServiceUrl",
    "authenticationPlugin",
    "authenticationParameters",
    "proxyProtocol",
    "brokerClientTrustCertsFilePath",
    "brokerClientCertificateFilePath",
    "brokerClientKeyFilePath",
    "brokerClientTlsTrustStore",
    "brokerClientTlsTrustStorePassword",
    "brokerClientTlsKeyStore",
    "brokerClientTlsKeyStorePassword",
    "brokerClientSslFactoryPluginParams",
    "listenerName",
)
DEFAULTS: dict[str, Any] = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
}
"""The fields of ClusterData that are never null, with their defaults."""

URL_SCHEMES = {
    "serviceUrl": ("service url, example: http://pulsar.example.com:8080", "http"),
    "serviceUrlTls": ("service tls url, example: https://pulsar.example.com:8443", "https"),
    "brokerServiceUrl": ("broker service url, example: pulsar://pulsar.example.com:6650", "pulsar"),
    "brokerServiceUrlTls": ("broker service tls url, example: pulsar+ssl://pulsar.example.com:6651", "pulsar+ssl"),
}
"""The URLs of ClusterData, each with the words by which a refusal describes it, and with its scheme."""
_URL = re.compile(r"(?P<scheme>[a-z+]+)://[^/\s,]+(,[^/\s,]+)*/?")


async def list_all(call: Call) -> Answer:
    clusters = await json_records.children(call.broker.service.metadata, paths.CLUSTERS)
    return [cluster for cluster in clusters if cluster != GLOBAL]


async def get(call: Call) -> Answer:
    return await _existing(call)


async def create(call: Call) -> Answer:
    cluster = call.parts["cluster"]
    data = _data(call)
    if not NAME.fullmatch(cluster) or cluster in (".", ".."):
        raise Refusal(412, "Cluster name is not valid")
    try:
        await call.broker.service.metadata.create(paths.cluster_path(cluster), to_json(data), make_parents=True)
    except NodeExistsError:
        raise Refusal(409, "Cluster already exists") from None
    return EMPTY


async def update(call: Call) -> Answer:
    data = _data(call)
    await _change(call, lambda record: record.update(data))
    return EMPTY


async def delete(call: Call) -> Answer:
    await _existing(call)
    cluster, store = call.parts["cluster"], call.broker.service.metadata
    user = await _user_of(store, cluster)
    if user is not None:
        raise Refusal(412, f"Cluster not empty: {user} is on it")
    for domain in await json_records.children(store, _domains_path(cluster)):
        await store.delete(f"{_domains_path(cluster)}/{domain}")
    for child in await json_records.children(store, paths.cluster_path(cluster)):
        await store.delete(f"{paths.cluster_path(cluster)}/{child}")
    await store.delete(paths.cluster_path(cluster))
    return NO_CONTENT


async def peers(call: Call) -> Answer:
    names = (await _existing(call)).get("peerClusterNames")
    return EMPTY if names is None else names


async def set_peers(call: Call) -> Answer:
    """Sets the peer clusters. An empty body, as `update-peer-clusters --peer-clusters ""` sends it, removes them."""
    cluster, store = call.parts["cluster"], call.broker.service.metadata
    body = bodies.parse(call.body)
    names = None if body is bodies.ABSENT or body is None else bodies.strings(body)
    known = await json_records.children(store, paths.CLUSTERS)
    if cluster in known:
        for name in names or ():
            if name == cluster:
                raise Refusal(412, f"{cluster} itself can't be part of peer-list")
            if name not in known:
                raise Refusal(412, f"Peer cluster {name} does not exist")

    def change(record: dict[str, Any]) -> None:
        record.pop("peerClusterNames", None)
        if names is not None:
            record["peerClusterNames"] = names

    await _change(call, change)
    return NO_CONTENT


async def failure_domains(call: Call) -> Answer:
    cluster, store = call.parts["cluster"], call.broker.service.metadata
    return {
        domain: await json_records.read(store, f"{_domains_path(cluster)}/{domain}")
        for domain in await json_records.children(store, _domains_path(cluster))
    }


async def failure_domain(call: Call) -> Answer:
    cluster, domain = call.parts["cluster"], call.parts["failureDomain"]
    await _check_exists(call)
    record = await json_records.read(call.broker.service.metadata, f"{_domains_path(cluster)}/{domain}")
    if record is None:
        raise Refusal(404, f"Domain {domain} for cluster {cluster} does not exist")
    return record


async def set_failure_domain(call: Call) -> Answer:
    cluster, domain, store = call.parts["cluster"], call.parts["failureDomain"], call.broker.service.metadata
    await _check_exists(call)
    brokers = bodies.obj(bodies.present(bodies.parse(call.body))).get("brokers")
    wanted = [] if brokers is None else bodies.strings(brokers, "brokers")
    for other in await json_records.children(store, _domains_path(cluster)):
        record = await json_records.read(store, f"{_domains_path(cluster)}/{other}")
        taken = [broker for broker in (record or {}).get("brokers") or () if broker in wanted]
        if other != domain and taken:
            raise Refusal(409, f"[{', '.join(taken)}] already exists in {other}")
    path = f"{_domains_path(cluster)}/{domain}"
    await json_records.update(store, path, lambda record: record.update(brokers=wanted), create=True)
    return NO_CONTENT


async def delete_failure_domain(call: Call) -> Answer:
    cluster, domain = call.parts["cluster"], call.parts["failureDomain"]
    await _check_exists(call)
    try:
        await call.broker.service.metadata.delete(f"{_domains_path(cluster)}/{domain}")
    except NoNodeError:
        raise Refusal(404, f"Domain-name {domain} or cluster {cluster} does not exist") from None
    return EMPTY


async def _existing(call: Call) -> dict[str, Any]:
    data = await json_records.read(call.broker.service.metadata, paths.cluster_path(call.parts["cluster"]))
    if data is None:
        raise Refusal(404, NOT_FOUND)
    return data


async def _check_exists(call: Call) -> None:
    """Raises Refusal 412 when the call's cluster does not exist. Apache answers calls on failure domains with this
    status, too."""
    cluster = call.parts["cluster"]
    if await call.broker.service.metadata.exists(paths.cluster_path(cluster)) is None:
        raise Refusal(412, f"Cluster {cluster} does not exist.")


async def _change(call: Call, change: Any) -> None:
    if not await json_records.update(call.broker.service.metadata, paths.cluster_path(call.parts["cluster"]), change):
        raise Refusal(404, NOT_FOUND)


async def _user_of(store: MetadataStore, cluster: str) -> str | None:
    """Returns the text "namespace TENANT/NAME" for a namespace that is replicated to the cluster, or None when no
    namespace is."""
    async for namespace in json_records.all_namespaces(store):
        policies = await json_records.read(store, paths.policies_path(namespace))
        if cluster in ((policies or {}).get("replication_clusters") or ()):
            return f"namespace {namespace}"
    return None


def _data(call: Call) -> dict[str, Any]:
    """Returns the ClusterData in the body of a call, with defaults. Raises Refusal 400 when the body holds no
    ClusterData."""
    body = bodies.parse(call.body)
    if body is bodies.ABSENT or body is None:
        raise Refusal(400, "cluster data is required")
    given = bodies.obj(body)
    data: dict[str, Any] = {key: bodies.text(given[key], key) for key in TEXTS if given.get(key) is not None}
    for key, default in DEFAULTS.items():
        read: Callable[[Any, str], Any] = bodies.boolean if isinstance(default, bool) else bodies.text
        data[key] = default if given.get(key) is None else read(given[key], key)
    if given.get("peerClusterNames") is not None:
        data["peerClusterNames"] = bodies.strings(given["peerClusterNames"], "peerClusterNames")
    for key, (example, scheme) in URL_SCHEMES.items():
        match = _URL.fullmatch(data.get(key) or f"{scheme}://x")
        if match is None or match["scheme"] != scheme:
            raise Refusal(400, f"Illegal {example}")
    return data


def _domains_path(cluster: str) -> str:
    return f"{paths.cluster_path(cluster)}/failureDomain"


ROUTES = (
    Route("GET", "/admin/v2/clusters", list_all, EVERYBODY, Place.ANY_BROKER),
    Route("GET", "/admin/v2/clusters/{cluster}", get, SUPERUSER, Place.ANY_BROKER),
    Route("PUT", "/admin/v2/clusters/{cluster}", create, SUPERUSER, Place.ANY_BROKER),
    Route("POST", "/admin/v2/clusters/{cluster}", update, SUPERUSER, Place.ANY_BROKER),
    Route("DELETE", "/admin/v2/clusters/{cluster}", delete, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/clusters/{cluster}/peers", peers, SUPERUSER, Place.ANY_BROKER),
    Route("POST", "/admin/v2/clusters/{cluster}/peers", set_peers, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/clusters/{cluster}/failureDomains", failure_domains, SUPERUSER, Place.ANY_BROKER),
    Route(
        "GET",
        "/admin/v2/clusters/{cluster}/failureDomains/{failureDomain}",
        failure_domain,
        SUPERUSER,
        Place.ANY_BROKER,
    ),
    Route(
        "POST",
        "/admin/v2/clusters/{cluster}/failureDomains/{failureDomain}",
        set_failure_domain,
        SUPERUSER,
        Place.ANY_BROKER,
    ),
    Route(
        "DELETE",
        "/admin/v2/clusters/{cluster}/failureDomains/{failureDomain}",
        delete_failure_domain,
        SUPERUSER,
        Place.ANY_BROKER,
    ),
)
