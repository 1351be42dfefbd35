"""A client of Pulsar's admin interface for the few REST calls that the data source and the jobs make. The client needs
nothing but the standard library."""

import json
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlsplit

from magnetar.spark.source.client.broker_connection import ClientLogin
from pulsar_proto.names import TopicName

RETRY_SECONDS = 0.5
NOT_FOUND = 404
PASSING = (0, 502, 503, 504)


class AdminError(Exception):
    """The admin interface refused or failed. `status` is the HTTP code, or 0 when there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AdminClient:
    """A client of one admin interface."""

    def __init__(self, admin_url: str, login: ClientLogin) -> None:
        """Takes the URL of the admin interface. Raises ValueError for a URL that is neither http:// nor https://."""
        if urlsplit(admin_url).scheme not in ("http", "https"):
            raise ValueError(f"admin.url '{admin_url}': expected http://host:port or https://host:port")
        self._url = admin_url.rstrip("/")
        self._login = login

    def internal_stats(self, topic: str, *, patient: bool = True) -> dict[str, Any]:
        """Returns `internalStats` of one partition or non-partitioned topic. While the server restarts, a `patient`
        call asks again, until the login's timeout. Raises AdminError, with status 404 when the topic does not exist."""
        deadline = time.monotonic() + self._login.timeout_seconds
        while True:
            try:
                answer: dict[str, Any] = self.call("GET", f"{topic_path(topic)}/internalStats?metadata=false")
                return answer
            except AdminError as error:
                if not patient or error.status not in PASSING or time.monotonic() + RETRY_SECONDS > deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Makes one request for a `path` below /admin/v2/. Returns and raises what `request` does."""
        return self.request(method, f"admin/v2/{path}", body)

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Makes one request. Returns the parsed answer, or None for an empty answer. Raises AdminError when the web
        service refuses the request or does not answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/{path}", data, method=method)
        request.add_header("Accept", "application/json")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        authorization = self._login.http_authorization()
        if authorization is not None:
            request.add_header("Authorization", authorization)
        context = self._login.tls_context() if self._url.startswith("https") else None
        try:
            with urllib.request.urlopen(request, timeout=self._login.timeout_seconds, context=context) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            reason = error.read(1000).decode("utf-8", "replace")
            raise AdminError(error.code, f"{method} {path}: HTTP {error.code} {reason}") from error
        except (OSError, HTTPException) as error:
            raise AdminError(0, f"{self._url} does not answer: {getattr(error, 'reason', error)}") from error
        return json.loads(content) if content else None


def topic_path(topic: str) -> str:
    """Returns a topic's path in REST calls: `persistent/tenant/namespace/encoded-name`."""
    name = TopicName.parse(topic)
    return f"{name.domain}/{name.tenant}/{name.namespace_name}/{quote(name.local_name, safe='')}"
