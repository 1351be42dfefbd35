"""Calls the admin interface of other brokers on behalf of a caller whom this broker has authorized. The other broker
gets this broker's own credentials (PulsarService.getAdminClient).

A refusal of the other broker becomes the refusal of the caller's call, with the same status and reason.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from magnetar.server.broker.broker import Broker
from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.peers.peer_errors import PeerError
from magnetar.server.web.calls import Call, Refusal

PEER_SECONDS = 25.0
"""How long another broker may take to answer. A caller is answered after half a minute at the latest."""

AT_ONCE = 32
"""How many peers are asked at the same time for one call."""

FORWARDED_HEADERS = ("Content-Type",)
"""The headers of the caller's request that this broker sends on to a peer. Credentials are never sent on."""

REASON_CHARACTERS_MAX = 1_000

_JAVA_MESSAGE = re.compile(r"^Message: (.*)$", re.MULTILINE)
"""Finds the error's message in the page with a stack trace that Apache's brokers send for an unexpected error."""


async def ask_peer(
    broker: Broker,
    owner: BrokerAddresses,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Makes one call at another broker and returns the JSON value of the answer, or None for an answer without a body.
    `path` is percent-encoded. If the other broker refuses, raises a Refusal with the status and reason that it gave.
    Raises Refusal 503 when the other broker cannot be asked, and 502 when its answer is not JSON."""
    peer = broker.peer
    if peer is None:
        raise Refusal(503, f"Broker {owner.broker_id} is asked by a broker that has no client for it")
    try:
        answer = await peer.call(
            method, owner.web_url, path, query, body, headers=headers or {}, deadline_seconds=PEER_SECONDS
        )
    except PeerError as error:
        raise Refusal(503, f"Broker {owner.broker_id} did not answer: {error}") from error
    if answer.status >= 300:
        raise Refusal(answer.status, _reason(answer.body) or f"Broker {owner.broker_id} answered {answer.status}")
    if not answer.body:
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        raise Refusal(502, f"Broker {owner.broker_id} answered something that is not JSON") from None


def forwarded(call: Call) -> dict[str, str]:
    """Returns the headers of a call that go to the peer with its body."""
    return {name: call.headers[name] for name in FORWARDED_HEADERS if name in call.headers}


def _reason(body: bytes) -> str:
    """Returns the reason in the body of a refusal, or the body itself when it is not JSON with a reason."""
    text = body.decode(errors="replace")
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    reason = parsed.get("reason") if isinstance(parsed, dict) else text
    found = _JAVA_MESSAGE.search(str(reason or ""))
    return (str(reason or "") if found is None else found[1])[:REASON_CHARACTERS_MAX]
