"""HTTP lookup, for clients that were given an http:// URL. Source: TopicLookup; real answers of 4.0.7."""

from server.handlers.lookup import check_namespace
from server.web.calls import Answer, Call, Refusal, topic_of

LISTENER_HEADER = "X-Pulsar-ListenerName"


async def lookup(call: Call) -> Answer:
    """`/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}`. The C++ client needs brokerUrl and a TLS field."""
    name = topic_of(*call.parts)
    listener = call.query.get("listenerName") or call.headers.get(LISTENER_HEADER)
    if listener:
        raise Refusal(503, f"the broker do not have {listener} listener")
    broker = call.broker
    with broker.lookup_permit():
        await check_namespace(broker, name)
    return {
        "brokerUrl": broker.broker_url,
        "httpUrl": broker.web_url,
        "nativeUrl": broker.broker_url,
        "brokerUrlSsl": "",
    }
