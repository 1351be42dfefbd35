"""The calls that look topics up for clients that were given an http:// URL, and the call that answers with a topic's
bundle. Source: TopicLookup; answers recorded from Pulsar 4.0.7."""

from urllib.parse import quote

from magnetar.server.admin.bundle_calls import bundles_of
from magnetar.server.admin.call_paths import topic_of
from magnetar.server.admin.topic_calls import check_local_cluster
from magnetar.server.namespaces.bundle_ranges import bundle_of
from magnetar.server.namespaces.lookup_rules import LookupAnswer
from magnetar.server.web.calls import Answer, Call, Moved, Refusal, Route, Text
from magnetar.server.web.needs import namespace, topic
from magnetar.server.web.place_rules import web_url_of
from magnetar.server.web.places import Place
from pulsar_proto.errors import TooManyRequests
from pulsar_proto.names import encode_local

LISTENER_HEADER = "X-Pulsar-ListenerName"


async def lookup(call: Call) -> Answer:
    """Answers with the addresses of the broker that serves a topic, or with status 307 and the broker to ask. The
    answer always has the member `brokerUrlSsl`, because the C++ client refuses an answer without a field for TLS."""
    name = topic_of(call)
    listener = call.query.get("listenerName") or call.headers.get(LISTENER_HEADER) or ""
    broker = call.broker
    try:
        with broker.lookup_permit():
            await broker.service.catalog.check_namespace(name.namespace)
            await check_local_cluster(call, name)
            found = await broker.lookups.find_topic(name, authoritative=call.flag("authoritative"))
    except TooManyRequests as error:
        raise Refusal(503, str(error)) from error  # TopicLookupBase.internalLookupTopicAsync
    urls, web = found.broker.of(listener), found.broker.urls
    if urls is None:
        raise Refusal(503, f"the broker do not have {listener} listener")
    if found.is_redirect:
        raise Moved(_location(call, found, listener))
    answer = {"brokerUrl": urls.broker, "httpUrl": web.web, "nativeUrl": urls.broker}
    if urls.broker_tls:
        answer |= {"brokerUrlTls": urls.broker_tls, "httpUrlTls": web.web_tls}
    return answer | {"brokerUrlSsl": ""}


def _location(call: Call, found: LookupAnswer, listener: str) -> str:
    """Returns the address of this lookup at the next broker to ask (TopicLookupBase.internalLookupTopicAsync)."""
    parts = call.parts
    names = (parts["domain"], parts["tenant"], parts["namespace"], encode_local(parts["topic"]))
    query = f"authoritative={'true' if found.authoritative else 'false'}"
    if listener:
        query += f"&listenerName={quote(listener)}"
    web_url = web_url_of(found.broker.urls, is_https=call.is_https)
    return f"{web_url}/lookup/v2/topic/{'/'.join(names)}?{query}"


async def bundle(call: Call) -> Answer:
    name = topic_of(call)
    boundaries = await bundles_of(call.broker.service, name.namespace)
    return Text(bundle_of(boundaries, name.full).encode())


ROUTES = (
    Route(
        "GET",
        "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}",
        lookup,
        topic("LOOKUP"),
        Place.ANY_BROKER,
        is_urgent=True,
    ),
    Route(
        "GET",
        "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}/bundle",
        bundle,
        namespace("GET_BUNDLE"),
        Place.ANY_BROKER,
    ),
)
