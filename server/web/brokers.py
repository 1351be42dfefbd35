"""The broker about itself: health, readiness, version, who is there, metrics.

Sources: BrokersBase, MetricsServlet; real answers of 4.0.7 (JSON's content type also for plain words).
"""

from magnetar import __version__
from server.metrics import CONTENT_TYPE, render
from server.web.calls import Answer, Call, Refusal, Text
from server.web.health import check_health

TOPIC_VERSIONS = ("V1", "V2")


async def status(call: Call) -> Answer:
    """What load balancers ask: Apache serves a file here."""
    return Text(b"OK", "text/plain; charset=utf-8")


async def health(call: Call) -> Answer:
    """`ok` when a message was stored and read back just now. Raises Refusal 503."""
    version = call.query.get("topicVersion")
    if version is not None and version not in TOPIC_VERSIONS:
        raise Refusal(404, f"There is no topicVersion {version}")
    fault = await check_health(call.broker.service)
    if fault is not None:
        raise Refusal(503, fault)
    return Text(b"ok")


async def ready(call: Call) -> Answer:
    """The ports open when clients can produce and consume: who can ask gets a yes."""
    return Text(b"ok")


async def version(call: Call) -> Answer:
    return Text(__version__.encode())


async def brokers(call: Call) -> Answer:
    """Apache answers the same for whatever cluster is named."""
    return [call.broker.broker_id]


async def leader(call: Call) -> Answer:
    return {"serviceUrl": call.broker.web_url, "brokerId": call.broker.broker_id}


async def clusters(call: Call) -> Answer:
    return [call.broker.cluster]


async def metrics(call: Call) -> Answer:
    return Text(await render(call.broker), CONTENT_TYPE)
