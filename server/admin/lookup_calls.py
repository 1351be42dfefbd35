"""The lookup over HTTP, for clients that were given an http:// URL, and the bundle of a topic. Source: TopicLookup;
answers recorded from Pulsar 4.0.7."""

from magnetar.server.admin.bundle_calls import bundles_of
from magnetar.server.admin.call_paths import topic_of
from magnetar.server.admin.topic_calls import check_local_cluster
from magnetar.server.namespaces.bundle_ranges import bundle_of
from magnetar.server.web.calls import Answer, Call, Refusal, Route, Text
from magnetar.server.web.needs import namespace, topic

LISTENER_HEADER = "X-Pulsar-ListenerName"


async def lookup(call: Call) -> Answer:
    """Answers with the addresses of the broker that serves a topic, which is this one. `brokerUrlSsl` is always there,
    because the C++ client refuses an answer without a field for TLS."""
    name = topic_of(call)
    listener = call.query.get("listenerName") or call.headers.get(LISTENER_HEADER) or ""
    broker = call.broker
    urls = broker.listeners.of(listener)
    if urls is None:
        raise Refusal(503, f"the broker do not have {listener} listener")
    with broker.lookup_permit():
        await broker.service.catalog.check_namespace(name.namespace)
        await check_local_cluster(call, name)
    web = broker.listeners.internal
    answer = {"brokerUrl": urls.broker, "httpUrl": web.web, "nativeUrl": urls.broker}
    if urls.broker_tls:
        answer |= {"brokerUrlTls": urls.broker_tls, "httpUrlTls": web.web_tls}
    return answer | {"brokerUrlSsl": ""}


async def bundle(call: Call) -> Answer:
    name = topic_of(call)
    boundaries = await bundles_of(call.broker.service, name.namespace)
    return Text(bundle_of(boundaries, name.full).encode())


ROUTES = (
    Route("GET", "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}", lookup, topic("LOOKUP"), is_urgent=True),
    Route("GET", "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}/bundle", bundle, namespace("GET_BUNDLE")),
)
