"""Asks a cluster a question about a topic, and prints the answer."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from magnetar.server.tools.connection.connection_errors import AdminCallError, ConnectionSettingsError
from magnetar.server.tools.connection.http_client import AdminHttp, path_of
from magnetar.server.tools.connection.settings import load_settings
from magnetar.server.tools.diagnosis.printable import printable

NO_ANSWER = 3
"""The exit code when the cluster could not be asked, or refused."""


class TopicQuestion(NamedTuple):
    """A question, and what a command makes of the answer."""

    command: str
    call: tuple[str, ...]
    """The segments that follow the topic in the path of the REST call."""
    topic_parts: tuple[str, ...]
    """The domain, the tenant, the namespace and the local name of the topic."""
    query: tuple[tuple[str, str], ...]
    to_text: Callable[[Mapping[str, Any]], str]
    """Returns the answer as people read it."""
    exit_code: Callable[[Mapping[str, Any]], int]


def ask(
    question: TopicQuestion,
    *,
    flags: Mapping[str, str],
    environment: Mapping[str, str],
    as_json: bool,
    watch_seconds: float | None,
) -> int:
    """Prints the answer and returns the exit code. With `watch_seconds` it asks again and again, and prints each answer
    that differs from the one before, until the user interrupts it."""
    path = path_of("admin", "v2", *question.topic_parts, *question.call)
    try:
        http = AdminHttp(load_settings(flags, environment))
        printed = ""
        while True:
            answer = http.get(path, question.query).json()
            text = json.dumps(answer, indent=2) if as_json else question.to_text(answer)
            if text != printed:
                print(text, flush=True)
                printed = text
            if watch_seconds is None:
                return question.exit_code(answer)
            time.sleep(watch_seconds)
    except (AdminCallError, ConnectionSettingsError) as error:
        print(f"magnetar {question.command}: {printable(str(error))}", file=sys.stderr)
        return NO_ANSWER
    except KeyboardInterrupt:
        return 0
