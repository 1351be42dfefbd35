"""The calls about the broker itself: health, readiness, version, the list of brokers, configuration, metrics.

Sources: BrokersBase, MetricsServlet; answers recorded from Pulsar 4.0.7, which labels even plain words as JSON.
"""

import asyncio
import logging
from functools import partial

from magnetar import __version__
from magnetar.server.admin.broker_stats_calls import loaded_by_bundle
from magnetar.server.admin.health import check_health
from magnetar.server.config.honoured_keys import KEYS
from magnetar.server.stats.metrics_page import CONTENT_TYPE, render
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route, Text
from magnetar.server.web.needs import EVERYBODY, SUPERUSER, Need, Scope

log = logging.getLogger(__name__)

TOPIC_VERSIONS = ("V1", "V2")

METRICS = Need(Scope.EVERYBODY, "metrics")
"""The metrics are open to everybody unless authenticateMetricsEndpoint is set."""


async def status(call: Call) -> Answer:
    """Answers the check of load balancers, for which Apache serves a file. A full disk is no reason for them to leave
    this broker out, since it still serves reads. Raises Refusal 503 when only a restart helps."""
    _refuse_with(call.broker.readiness.fault)
    return Text(b"OK", "text/plain; charset=utf-8")


async def health(call: Call) -> Answer:
    """Answers `ok` after it has stored a message and read it back. Raises Refusal 503 when that fails, or when
    something prevents the next write."""
    version = call.query.get("topicVersion")
    if version is not None and version not in TOPIC_VERSIONS:
        raise Refusal(404, f"There is no topicVersion {version}")
    _refuse_with(call.broker.readiness.fault)
    fault = await check_health(call.broker.service)
    _refuse_with(call.broker.readiness.hindrance or fault)
    return Text(b"ok")


async def ready(call: Call) -> Answer:
    """Answers `ok`, since the ports are only opened when clients can produce and consume. Raises Refusal 503 while they
    cannot produce."""
    _refuse_with(call.broker.readiness.hindrance)
    return Text(b"ok")


def _refuse_with(reason: str | None) -> None:
    if reason is not None:
        raise Refusal(503, reason)


async def version(call: Call) -> Answer:
    return Text(__version__.encode())


async def brokers(call: Call) -> Answer:
    """Lists this broker, whatever cluster the path names, as Apache does."""
    return [call.broker.broker_id]


async def leader(call: Call) -> Answer:
    return {"serviceUrl": call.broker.web_url, "brokerId": call.broker.broker_id}


async def owned_namespaces(call: Call) -> Answer:
    """Answers with the bundles that have a topic that is loaded here."""
    if call.parts["broker"] != call.broker.broker_id:
        raise Refusal(404, f"Broker id '{call.parts['broker']}' not found in available brokers.")
    return {
        f"{namespace}/{bundle}": {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
        for namespace, bundles in (await loaded_by_bundle(call.broker.service)).items()
        for bundle in bundles
    }


async def configuration_names(call: Call) -> Answer:
    """Lists the keys that can be changed while the server runs. The list is empty so far."""
    return []


async def configuration_values(call: Call) -> Answer:
    """Answers with the keys that were changed while the server runs. That list is empty, because no key can be changed
    yet."""
    return {}


async def runtime_configuration(call: Call) -> Answer:
    """Answers with the settings of topics in force, by their keys in broker.conf. No secret is among them."""
    settings = call.broker.service.settings
    values = {}
    for key in KEYS.values():
        for field in key.fields:
            if hasattr(settings, field):
                value = getattr(settings, field)
                values[key.name] = ",".join(value) if isinstance(value, tuple) else _java(value)
    return values


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def refuse_configuration(call: Call) -> Answer:
    raise Refusal(412, "Can't update non-dynamic configuration")


async def refuse_removal(call: Call) -> Answer:
    raise Refusal(412, "Can't delete non-dynamic configuration")


async def internal_configuration(call: Call) -> Answer:
    return {
        "ledgersRootPath": "/ledgers",
        "bookkeeperMetadataServiceUri": "",
        "stateStorageServiceUrl": None,
        "metadataStoreUrl": "",
        "configurationMetadataStoreUrl": "",
        "zookeeperServers": "",
        "configurationStoreServers": "",
    }


async def backlog_quota_check(call: Call) -> Answer:
    """Has no effect: the quotas are checked periodically anyway."""
    return NO_CONTENT


async def shut_down(call: Call) -> Answer:
    """Stops the server as SIGTERM does, after this call is answered. The parameters `maxConcurrentUnloadPerSec` and
    `forcedTerminateTopic` are ignored: no other broker takes the topics over."""
    log.warning("asked over HTTP to shut down")
    asyncio.get_running_loop().call_soon(call.broker.ask_to_stop)
    return NO_CONTENT


async def metrics(call: Call) -> Answer:
    return Text(await call.broker.metrics_page.get(partial(render, call.broker)), CONTENT_TYPE)


ROUTES = (
    Route("GET", "/status.html", status, EVERYBODY, is_urgent=True),
    Route("GET", "/metrics", metrics, METRICS),
    Route("GET", "/admin/v2/brokers", brokers, SUPERUSER),
    Route("GET", "/admin/v2/brokers/health", health, SUPERUSER, is_urgent=True),
    Route("GET", "/admin/v2/brokers/ready", ready, EVERYBODY, is_urgent=True),
    Route("GET", "/admin/v2/brokers/version", version, EVERYBODY),
    Route("GET", "/admin/v2/brokers/leaderBroker", leader, SUPERUSER),
    Route("GET", "/admin/v2/brokers/configuration", configuration_names, SUPERUSER),
    Route("GET", "/admin/v2/brokers/configuration/values", configuration_values, SUPERUSER),
    Route("GET", "/admin/v2/brokers/configuration/runtime", runtime_configuration, SUPERUSER),
    Route("POST", "/admin/v2/brokers/configuration/{key}/{value}", refuse_configuration, SUPERUSER),
    Route("DELETE", "/admin/v2/brokers/configuration/{key}", refuse_removal, SUPERUSER),
    Route("GET", "/admin/v2/brokers/internal-configuration", internal_configuration, SUPERUSER),
    Route("GET", "/admin/v2/brokers/backlog-quota-check", backlog_quota_check, SUPERUSER),
    Route("POST", "/admin/v2/brokers/shutdown", shut_down, SUPERUSER),
    Route("GET", "/admin/v2/brokers/{cluster}", brokers, SUPERUSER),
    Route("GET", "/admin/v2/brokers/{cluster}/{broker}/ownedNamespaces", owned_namespaces, SUPERUSER),
)
