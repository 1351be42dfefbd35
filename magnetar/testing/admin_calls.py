"""The calls of the REST interface that tests need, with the standard library only."""

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ANSWER_SECONDS_MAX = 60.0


class AdminError(Exception):
    """The server refused a call or did not answer it. The text names the call and the server's reason."""


class AdminCalls:
    """Blocking calls to the web port of one server."""

    def __init__(self, url: str, token: str = "") -> None:
        """`token` is the caller's token, for a server that asks for one."""
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Makes one call and returns its answer, read as JSON; an empty answer is None. Raises AdminError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                reason = error.read().decode("utf-8", "replace")
            raise AdminError(f"{method} {path}: {error.code} {reason}") from None
        except OSError as error:
            raise AdminError(f"{method} {path}: {error}") from error
        return json.loads(content) if content else None

    @contextmanager
    def namespace(self, tenant: str = "public") -> Iterator[str]:
        """Yields the name "tenant/namespace" of a namespace that nobody else uses. Afterwards the namespace is deleted
        with its topics, and clients that still use them are disconnected. Raises AdminError, for example when there is
        no such tenant."""
        name = f"{tenant}/test-{uuid.uuid4().hex[:12]}"
        self.call("PUT", f"/admin/v2/namespaces/{name}", {})
        try:
            yield name
        finally:
            self.call("DELETE", f"/admin/v2/namespaces/{name}?force=true")
