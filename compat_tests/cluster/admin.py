"""Calls of a broker's HTTP port, and what its cluster's ZooKeeper has of the load balancer."""

import json
import urllib.error
import urllib.request
from itertools import pairwise
from typing import Any, NamedTuple

from compat_tests.cluster.seats import BrokerSeat

CALL_SECONDS = 60
REDIRECTS_MAX = 20
"""How often Pulsar's clients follow redirects of lookups."""


class Found(NamedTuple):
    """The answer to a lookup, and the addresses that were asked for it."""

    web_url: str
    asked: list[str]


class _KeepRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_KeepRedirects)


def call(broker: BrokerSeat, path: str, method: str = "GET", body: Any = None) -> Any:
    """Calls a broker, follows redirects, and returns the JSON of the answer. Raises HTTPError for a refusal."""
    text, _ = _follow(broker.web_url + path, method, body)
    return json.loads(text) if text else None


def lookup(broker: BrokerSeat, topic: str) -> Found:
    """Looks a persistent topic up, `tenant/namespace/name`, as Pulsar's clients do. Raises HTTPError."""
    text, asked = _follow(f"{broker.web_url}/lookup/v2/topic/persistent/{topic}", "GET", None)
    return Found(json.loads(text)["httpUrl"], asked)


def _follow(url: str, method: str, body: Any) -> tuple[bytes, list[str]]:
    data = None if body is None else json.dumps(body).encode()
    asked = []
    for _ in range(REDIRECTS_MAX):
        asked.append(url)
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with _opener.open(request, timeout=CALL_SECONDS) as answer:
                return answer.read(), asked
        except urllib.error.HTTPError as error:
            if error.code != 307:
                raise
            url = error.headers["Location"]
    raise AssertionError(f"redirected without end: {asked}")


def leader(broker: BrokerSeat) -> str:
    """Returns the id of the broker that leads, as this broker knows it; empty when it knows none."""
    try:
        return str(call(broker, "/admin/v2/brokers/leaderBroker")["brokerId"])
    except urllib.error.HTTPError:
        return ""


def registered(broker: BrokerSeat, cluster: str) -> list[str]:
    """Returns the ids of the registered brokers, as this broker knows them."""
    return sorted(call(broker, f"/admin/v2/brokers/{cluster}"))


def bundles(broker: BrokerSeat, namespace: str) -> list[str]:
    """Returns the ranges of a namespace's bundles."""
    edges = call(broker, f"/admin/v2/namespaces/{namespace}/bundles")["boundaries"]
    return [f"{low}_{high}" for low, high in pairwise(edges)]


def owners(broker: BrokerSeat, namespace: str, topics: int = 40) -> dict[str, str]:
    """Looks up topics of all bundles of a namespace at this broker. Returns the web address of the owner of each
    bundle."""
    found = {}
    for number in range(topics):
        name = f"{namespace}/t{number}"
        bundle = _bundle_of(broker, name)
        if bundle not in found:
            found[bundle] = lookup(broker, name).web_url
    return found


def _bundle_of(broker: BrokerSeat, topic: str) -> str:
    text, _ = _follow(f"{broker.web_url}/lookup/v2/topic/persistent/{topic}/bundle", "GET", None)
    return text.decode().strip('"')
