"""Compaction as an operator asks for it, by REST."""

import json
import urllib.error
import urllib.request

from compat_tests.harness import Server, wait_until


def url_of(server: Server, topic: str) -> str:
    return f"{server.web_url}/admin/v2/{topic.replace('://', '/')}/compaction"


def status(server: Server, topic: str) -> dict[str, str]:
    with urllib.request.urlopen(url_of(server, topic), timeout=60) as answer:
        found: dict[str, str] = json.load(answer)
        return found


def compact(server: Server, topic: str) -> None:
    """Starts a compaction and returns when it is done."""
    urllib.request.urlopen(urllib.request.Request(url_of(server, topic), method="PUT"), timeout=60).close()
    wait_until(lambda: status(server, topic)["status"] != "RUNNING", "the compaction ends")
    assert status(server, topic) == {"status": "SUCCESS", "lastError": ""}
