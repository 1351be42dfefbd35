"""Refuses the calls of Apache Pulsar that this server does not have, with a text that names what is missing.

Command line tools show the status and the text to their users. So where a service can be switched off in Apache's
broker 4.0.7, the refusal has the status and the text that this broker sends while the service is off.
"""

import re

from magnetar.server.web.calls import Refusal

NO_WORKER = "Pulsar Function Worker is not enabled, probably functionsWorkerEnabled is set to false"
NO_PACKAGES = "Package Management Service is not enabled in the broker."
NO_JVM = "This broker does not run on a JVM; /metrics and broker-stats/metrics have its figures"
NO_OFFLOADING = "This broker does not offload: all messages stay in its own ledgers"
NO_SHADOW_TOPICS = "This broker does not have shadow topics: a topic's messages are shown by that topic only"
NO_MIGRATION = "This broker does not move its clients to another cluster"
NO_WEBSOCKET = "The WebSocket service is not enabled in this broker: use the binary protocol"
NO_REST_CONSUMER = "Over HTTP messages are only published: POST /topics/{domain}/{tenant}/{namespace}/{topic}"
NO_PROXY = "This is a broker: statistics of a proxy are told by the proxy"
NO_PENDING_OPERATIONS = "Operations on ledgers are not counted by topic; internalStats of a topic has what waits"
NO_AVAILABILITY = "One broker bears all bundles: there is no availability to compare"
ONLY_V2 = "Paths of Pulsar 1, with a cluster between tenant and namespace, are not here: use /admin/v2"

ABSENT = tuple(
    (re.compile(rf"/{path}(/.*)?"), status, reason)
    for path, status, reason in (
        (r"admin/v[23]/(functions?|sources?|sinks?|worker|worker-stats)", 409, NO_WORKER),
        (r"admin/v3/packages", 503, NO_PACKAGES),
        (r"admin/v2/broker-stats/(mbeans|allocator-stats)", 404, NO_JVM),
        (r"admin/v2/broker-stats/bookieops", 404, NO_PENDING_OPERATIONS),
        (r"admin/v2/broker-stats/broker-resource-availability", 409, NO_AVAILABILITY),
        (r"(admin/v2/)?proxy-stats", 404, NO_PROXY),
        (r"ws", 404, NO_WEBSOCKET),
        (r"topics", 404, NO_REST_CONSUMER),
        (
            r"admin/(namespaces|(non-)?persistent|clusters|properties|brokers|broker-stats|resource-quotas)",
            404,
            ONLY_V2,
        ),
        (r"lookup/v2/destination", 404, ONLY_V2),
    )
)


def refusal_of_path(path: str) -> Refusal:
    """Returns the refusal for a path that is not in the table of routes. The function does no I/O."""
    for pattern, status, reason in ABSENT:
        if pattern.fullmatch(path):
            return Refusal(status, reason)
    return Refusal(404, f"There is nothing at {path}")
