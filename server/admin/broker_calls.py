"""The calls about the broker itself: health, readiness, version, the list of brokers, configuration, metrics.

Sources: BrokersBase, MetricsServlet; answers recorded from Pulsar 4.0.7, which sends even plain words with the content
type of JSON.
"""

import asyncio
import logging
from functools import partial
from typing import Any

from magnetar import __version__
from magnetar.metadata import paths
from magnetar.server.admin import bodies, json_records
from magnetar.server.admin.broker_stats_calls import loaded_by_bundle
from magnetar.server.admin.drain import drain_and_stop
from magnetar.server.admin.health import check_health
from magnetar.server.admin.isolation_change_rules import isolation_of
from magnetar.server.broker.broker_state import BrokerState
from magnetar.server.broker.dynamic_configuration import ConfigurationRefused
from magnetar.server.config.dynamic_keys import DYNAMIC_KEYS
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.stats.metrics_page import CONTENT_TYPE, render
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Call, Moved, Refusal, Route, Text, Unpacked
from magnetar.server.web.content_encodings import takes_gzip
from magnetar.server.web.needs import EVERYBODY, SUPERUSER, Need, Scope
from magnetar.server.web.places import Place

log = logging.getLogger(__name__)

TOPIC_VERSIONS = ("V1", "V2")

METRICS = Need(Scope.EVERYBODY, "metrics")
"""The metrics are open to everybody unless authenticateMetricsEndpoint is set."""


async def status(call: Call) -> Answer:
    """Answers `OK` to the check of a load balancer; Apache's broker serves a file there. A broker with a full disk
    answers `OK` too, because it still serves reads. Raises Refusal 503 when only a restart helps the broker."""
    _refuse_with(call.broker.readiness.fault)
    return Text(b"OK", "text/plain; charset=utf-8")


async def health(call: Call) -> Answer:
    """Answers `ok` after the broker has stored a message and read it back. Raises Refusal 503 when the broker fails to
    do so, or when something prevents the next write."""
    version = call.query.get("topicVersion")
    if version is not None and version not in TOPIC_VERSIONS:
        raise Refusal(404, f"There is no topicVersion {version}")
    _refuse_with(call.broker.readiness.fault)
    fault = await check_health(call.broker)
    _refuse_with(call.broker.readiness.hindrance or fault)
    return Text(b"ok")


async def ready(call: Call) -> Answer:
    """Answers `ok` while clients can produce and consume. Raises Refusal 503 while clients cannot produce, and while
    the broker is not a member of its cluster yet, or no longer one."""
    state = call.broker.state
    _refuse_with(None if state is BrokerState.STARTED else f"the broker's state is {state.value}")
    _refuse_with(call.broker.readiness.hindrance)
    return Text(b"ok")


def _refuse_with(reason: str | None) -> None:
    if reason is not None:
        raise Refusal(503, reason)


async def version(call: Call) -> Answer:
    return Text(__version__.encode())


async def brokers(call: Call) -> Answer:
    """Lists the brokers of this cluster, whatever cluster the path names, as Apache does."""
    return await call.broker.lookups.placement.brokers()


async def leader(call: Call) -> Answer:
    found = await call.broker.lookups.placement.leader()
    if found is None:
        raise Refusal(404, "Couldn't find leader broker")
    return {"serviceUrl": found.web_url, "brokerId": found.broker_id}


async def owned_namespaces(call: Call) -> Answer:
    """Answers with the bundles that this broker owns. A standalone broker answers with the bundles that have a loaded
    topic."""
    ownership = call.broker.ownership
    if ownership.is_sole:
        loaded = await loaded_by_bundle(call.broker.service)
        owned = [BundleName(namespace, bundle) for namespace, bundles in loaded.items() for bundle in bundles]
    else:
        owned = ownership.owned_bundles()
    policies: dict[str, Any] = await json_records.read(call.broker.service.metadata, _isolation_path(call)) or {}
    host = call.broker.broker_id.rpartition(":")[0]
    return {
        str(bundle): {**isolation_of(bundle.namespace, host, policies), "is_active": ownership.is_active(bundle)}
        for bundle in owned
    }


def _isolation_path(call: Call) -> str:
    return f"{paths.cluster_path(call.broker.cluster)}/namespaceIsolationPolicies"


async def configuration_names(call: Call) -> Answer:
    """Lists the keys that Apache's brokers can change while they run, whether or not they have an effect here."""
    return sorted(DYNAMIC_KEYS)


async def configuration_values(call: Call) -> Answer:
    """Answers with the keys that were changed while brokers ran."""
    return dict(call.broker.configuration.values)


async def runtime_configuration(call: Call) -> Answer:
    """Answers with the present values of the settings objects that `DynamicConfiguration` holds, by their keys in
    broker.conf. Settings of other parts, and secrets, are left out."""
    return call.broker.configuration.in_force()


async def change_configuration(call: Call) -> Answer:
    try:
        await call.broker.configuration.set(call.parts["key"], call.parts["value"])
    except ConfigurationRefused as refused:
        raise Refusal(412, str(refused)) from None
    return EMPTY


async def restore_configuration(call: Call) -> Answer:
    try:
        await call.broker.configuration.remove(call.parts["key"])
    except ConfigurationRefused as refused:
        raise Refusal(412, str(refused)) from None
    return EMPTY


async def internal_configuration(call: Call) -> Answer:
    """Answers with the addresses of the metadata stores, for tools that connect to the stores directly."""
    return {
        "ledgersRootPath": "/ledgers",
        "bookkeeperMetadataServiceUri": "",
        "stateStorageServiceUrl": None,
        "metadataStoreUrl": "",
        "configurationMetadataStoreUrl": "",
        "zookeeperServers": "",
        "configurationStoreServers": "",
        **call.broker.internal_configuration,
    }


async def backlog_quota_check(call: Call) -> Answer:
    """Has no effect, because this broker checks the backlog quotas periodically anyway."""
    return NO_CONTENT


async def shut_down(call: Call) -> Answer:
    """Stops the broker, as SIGTERM does, after this call is answered. With the parameter `maxConcurrentUnloadPerSec`,
    the broker first gives its bundles away, that many a second. The parameter `forcedTerminateTopic` makes no
    difference, because topics never wait for their clients."""
    rate = bodies.integer(call.query.get("maxConcurrentUnloadPerSec", "0"), what="maxConcurrentUnloadPerSec")
    log.warning("asked over HTTP to shut down")
    call.broker.spawn(drain_and_stop(call.broker, rate))
    return NO_CONTENT


async def metrics(call: Call) -> Answer:
    """Answers with the page of metrics, compressed if the caller takes gzip. The path without a slash at its end is
    redirected, as by Apache's broker."""
    path, _, query = call.target.partition("?")
    if not path.endswith("/"):
        raise Moved(f"{path}/{query and f'?{query}'}", status=302)
    timeout_s = call.broker.metrics_settings.metrics_servlet_timeout_ms / 1000
    try:
        async with asyncio.timeout(timeout_s or None):
            page = await call.broker.metrics_page.get(partial(render, call.broker))
    except TimeoutError:
        raise Refusal(503, f"The metrics were not gathered in {timeout_s:g} s (metricsServletTimeoutMs)") from None
    if takes_gzip(call.headers.get("Accept-Encoding", "")):
        return Text(page.parts, CONTENT_TYPE, {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
    return Unpacked(page, CONTENT_TYPE, {"Vary": "Accept-Encoding"})


ROUTES = (
    Route("GET", "/status.html", status, EVERYBODY, Place.ASKED_BROKER, is_urgent=True),
    Route("GET", "/metrics", metrics, METRICS, Place.ASKED_BROKER),
    Route("GET", "/admin/v2/brokers", brokers, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/brokers/health", health, SUPERUSER, Place.QUERIED_BROKER, is_urgent=True),
    Route("GET", "/admin/v2/brokers/ready", ready, EVERYBODY, Place.ASKED_BROKER, is_urgent=True),
    Route("GET", "/admin/v2/brokers/version", version, EVERYBODY, Place.ASKED_BROKER),
    Route("GET", "/admin/v2/brokers/leaderBroker", leader, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/brokers/configuration", configuration_names, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/brokers/configuration/values", configuration_values, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/brokers/configuration/runtime", runtime_configuration, SUPERUSER, Place.ASKED_BROKER),
    Route("POST", "/admin/v2/brokers/configuration/{key}/{value}", change_configuration, SUPERUSER, Place.ANY_BROKER),
    Route("DELETE", "/admin/v2/brokers/configuration/{key}", restore_configuration, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/brokers/internal-configuration", internal_configuration, SUPERUSER, Place.ASKED_BROKER),
    Route("GET", "/admin/v2/brokers/backlog-quota-check", backlog_quota_check, SUPERUSER, Place.ASKED_BROKER),
    Route("POST", "/admin/v2/brokers/shutdown", shut_down, SUPERUSER, Place.ASKED_BROKER),
    Route("GET", "/admin/v2/brokers/{cluster}", brokers, SUPERUSER, Place.ANY_BROKER),
    Route(
        "GET", "/admin/v2/brokers/{cluster}/{broker}/ownedNamespaces", owned_namespaces, SUPERUSER, Place.NAMED_BROKER
    ),
)
