"""Calls to the admin port, as a script with curl makes them."""

import json
import urllib.error
import urllib.request
from typing import Any

from compat_tests.harness import Server

TIMEOUT_SECONDS = 30


def owner_web_url(server: Server, topic: str) -> str:
    """Returns the HTTP address of the broker that owns the topic: in a cluster it may be any, else it is the server's
    own."""
    url = f"{server.web_url}/lookup/v2/topic/{topic.replace('://', '/')}"
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        found: str = json.load(answer)["httpUrl"]
        return found


class Refused(Exception):
    """A status of 400 or more, with the reason in the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.reason = reason


class Admin:
    """Calls the admin port of one server, also after the server has restarted."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def get(self, path: str) -> Any:
        return self._call("GET", path)

    def put(self, path: str, body: Any = None) -> Any:
        return self._call("PUT", path, body)

    def post(self, path: str, body: Any = None) -> Any:
        return self._call("POST", path, body)

    def delete(self, path: str) -> Any:
        return self._call("DELETE", path)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """Makes a call and returns the answer's JSON, or its text when it is not JSON. Raises Refused."""
        request = urllib.request.Request(
            f"{self._server.web_url}/admin/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            try:
                reason = json.loads(text)["reason"]
            except (ValueError, KeyError):
                reason = text
            raise Refused(error.code, reason) from None
        try:
            return json.loads(text)
        except ValueError:
            return text
