"""Asks a cluster why a topic's subscriptions or producers get nothing, and prints the answer."""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from magnetar.server.tools.connection.connection_errors import AdminCallError, ConnectionSettingsError
from magnetar.server.tools.connection.http_client import AdminHttp, path_of
from magnetar.server.tools.connection.settings import load_settings
from magnetar.server.tools.diagnosis.why_text import why_text

CLEAR, IN_THE_WAY, NO_ANSWER = 0, 1, 3
"""The exit codes: nothing stands in the way, something does, and the cluster could not be asked."""


def run_why(
    topic_parts: tuple[str, ...],
    subscription: str | None,
    *,
    flags: Mapping[str, str],
    environment: Mapping[str, str],
    as_json: bool,
    watch_seconds: float | None,
) -> int:
    """Prints the answer and returns the exit code. `topic_parts` are the domain, the tenant, the namespace and the
    local name. With `watch_seconds` it asks again and again, and prints each answer that differs from the one before,
    until the user interrupts it."""
    try:
        http = AdminHttp(load_settings(flags, environment))
        printed = ""
        while True:
            answer = _ask(http, topic_parts, subscription)
            text = json.dumps(answer, indent=2, ensure_ascii=False) if as_json else why_text(answer)
            if text != printed:
                print(text, flush=True)
                printed = text
            if watch_seconds is None:
                return IN_THE_WAY if answer["standsInTheWay"] else CLEAR
            time.sleep(watch_seconds)
    except (AdminCallError, ConnectionSettingsError) as error:
        print(f"magnetar why: {error}", file=sys.stderr)
        return NO_ANSWER
    except KeyboardInterrupt:
        return CLEAR


def _ask(http: AdminHttp, topic_parts: tuple[str, ...], subscription: str | None) -> Any:
    query = () if subscription is None else (("subscription", subscription),)
    return http.get(path_of("admin", "v2", *topic_parts, "why"), query).json()
