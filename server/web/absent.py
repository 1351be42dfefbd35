"""Calls of Apache Pulsar that this server does not have: refused with what is missing, not as a path nobody knows.

Statuses and words are those of a 4.0.7 broker without the service in question, where there is such a broker; tools tell
their users both.
"""

import re

from server.web.calls import Refusal

NO_WORKER = "Pulsar Function Worker is not enabled, probably functionsWorkerEnabled is set to false"
NO_PACKAGES = "Package Management Service is not enabled in the broker."
NO_TRANSACTIONS = "This Broker is not configured with transactionCoordinatorEnabled=true."
NO_JVM = "This broker does not run on a JVM; /metrics and broker-stats/metrics have its figures"
NO_OFFLOADING = "This broker does not offload: all messages stay in its own ledgers"

ABSENT = tuple(
    (re.compile(rf"/admin/{path}(/.*)?"), status, reason)
    for path, status, reason in (
        (r"v[23]/(functions?|sources?|sinks?|worker|worker-stats)", 409, NO_WORKER),
        (r"v3/packages", 503, NO_PACKAGES),
        (r"v3/transactions", 503, NO_TRANSACTIONS),
        (r"v2/broker-stats/(mbeans|allocator-stats)", 404, NO_JVM),
        (r"v2/(namespaces|persistent)(/[^/]+){2,3}/(offloadPolicies|removeOffloadPolicies)", 404, NO_OFFLOADING),
    )
)


def refusal_of_path(path: str) -> Refusal:
    """Of a path without a route. Pure."""
    for pattern, status, reason in ABSENT:
        if pattern.fullmatch(path):
            return Refusal(status, reason)
    return Refusal(404, f"There is nothing at {path}")
