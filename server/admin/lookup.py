"""HTTP lookup, for clients that were given an http:// URL, and the bundle of a topic. Source: TopicLookup; real answers
of 4.0.7."""

from server.admin.bundles import bundles_of
from server.admin.paths import topic_of
from server.admin.topics import check_local_cluster
from server.bundle_ranges import bundle_of
from server.web.calls import Answer, Call, Refusal, Route, Text
from server.web.needs import namespace, topic

LISTENER_HEADER = "X-Pulsar-ListenerName"


async def lookup(call: Call) -> Answer:
    """The C++ client needs brokerUrl and a TLS field."""
    name = topic_of(call)
    listener = call.query.get("listenerName") or call.headers.get(LISTENER_HEADER)
    if listener:
        raise Refusal(503, f"the broker do not have {listener} listener")
    broker = call.broker
    with broker.lookup_permit():
        await broker.service.catalog.check_namespace(name.namespace)
        await check_local_cluster(call, name)
    answer = {"brokerUrl": broker.broker_url, "httpUrl": broker.web_url, "nativeUrl": broker.broker_url}
    if broker.broker_url_tls:
        answer |= {"brokerUrlTls": broker.broker_url_tls, "httpUrlTls": broker.web_url_tls}
    return answer | {"brokerUrlSsl": ""}


async def bundle(call: Call) -> Answer:
    name = topic_of(call)
    boundaries = await bundles_of(call.broker.service, name.namespace)
    return Text(bundle_of(boundaries, name.full).encode())


ROUTES = (
    Route("GET", "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}", lookup, topic("LOOKUP")),
    Route("GET", "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}/bundle", bundle, namespace("GET_BUNDLE")),
)
