"""Finds brokers over HTTP, for a service URL of http:// or https:// (org.apache.pulsar.client.impl.HttpLookupService).

Only the first question goes over HTTP: who owns the topic. The broker that the answer names is asked all others by the
binary protocol.
"""

from collections.abc import Sequence
from typing import Any

from magnetar.spark.source.client.admin_client import NOT_FOUND, PASSING, AdminClient, AdminError, topic_path
from magnetar.spark.source.client.broker_connection import ClientLogin, Disconnected
from pulsar_proto.errors import AuthenticationFault, AuthorizationFault, PulsarError, TopicNotFound, UnknownFault

FAULTS: dict[int, type[PulsarError]] = {401: AuthenticationFault, 403: AuthorizationFault, NOT_FOUND: TopicNotFound}


class HttpLookup:
    """Asks the first of some web services that answers."""

    def __init__(self, urls: Sequence[str], login: ClientLogin) -> None:
        self._services = [AdminClient(url, login) for url in urls]
        self._address = "brokerUrlTls" if urls[0].startswith("https") else "brokerUrl"

    def check(self) -> None:
        """Raises Disconnected when no web service answers, and AuthenticationFault when the login is refused."""
        try:
            self._ask("admin/v2/clusters")
        except (AuthorizationFault, TopicNotFound, UnknownFault):
            return  # this login need not be an administrator's

    def broker_of(self, topic: str) -> str:
        """Returns the service URL of the broker that owns a topic, of the TLS port when the web service is asked by
        https. Raises Disconnected and the errors of FAULTS."""
        answer = self._ask(f"lookup/v2/topic/{topic_path(topic)}")
        found = answer.get(self._address) if isinstance(answer, dict) else None
        if not isinstance(found, str) or not found:
            raise Disconnected(f"the lookup of {topic} answered without a {self._address}")
        return found

    def topics_of(self, namespace: str) -> list[str]:
        """Returns the persistent topics of a namespace, each partition as one; none for a namespace that does not
        exist, as the binary protocol does."""
        try:
            return list(map(str, self._ask(f"admin/v2/namespaces/{namespace}/topics?mode=PERSISTENT") or ()))
        except TopicNotFound:
            return []

    def _ask(self, path: str) -> Any:
        failed: AdminError | None = None
        for service in self._services:
            try:
                return service.request("GET", path)
            except AdminError as error:
                if error.status not in PASSING:
                    raise FAULTS.get(error.status, UnknownFault)(str(error)) from error
                failed = error
        raise Disconnected(str(failed))
