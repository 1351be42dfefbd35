"""Publishing over HTTP with plain requests: messages whose publishing was answered survive SIGKILL, and callers need
the permission."""

import json
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from typing import Any

import pulsar
import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import WAIT_SECONDS, Server
from compat_tests.unavailable import unavailable

CALLERS = 4
ANSWERED_BEFORE_KILL = 60
ANSWER_SECONDS_MAX = 30


def call(method: str, url: str, body: Any = None) -> Any:
    """Makes a call and returns the parsed answer. Raises OSError when the status is not a success or the server is
    gone."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX) as answer:
        text = answer.read()
    return json.loads(text) if text else None


class Caller(threading.Thread):
    """Publishes three messages in each call until the server is gone, and records which were answered."""

    def __init__(self, url: str, name: str, enough: threading.Semaphore) -> None:
        super().__init__(name=name)
        self.answered: dict[str, str] = {}
        """By text: the place of each message that the server said it has stored."""
        self.sent: set[str] = set()
        self._url = url
        self._enough = enough

    def run(self) -> None:
        number = 0
        while True:
            texts = [f"{self.name}:{number + each}" for each in range(3)]
            number += 3
            self.sent.update(texts)
            try:
                answer = call("POST", self._url, {"messages": [{"payload": text, "key": text} for text in texts]})
            except (OSError, ValueError):
                return
            for text, result in zip(texts, answer["messagePublishResults"], strict=True):
                if result["errorCode"] == 0:
                    self.answered[text] = result["messageId"]
            self._enough.release()


@pytest.mark.parametrize("round_number", range(2))
def test_what_was_answered_outlives_a_kill(
    own_server: Server, make_client: ClientFactory, round_number: int, is_peer: bool
) -> None:
    if is_peer:
        pytest.skip("the peer syncs its journal only when it is told to")
    web = own_server.address.web_url
    call("PUT", f"{web}/admin/v2/persistent/public/default/rest/partitions", 2)
    enough = threading.Semaphore(0)
    callers = [Caller(f"{web}/topics/persistent/public/default/rest", f"c{each}", enough) for each in range(CALLERS)]
    for caller in callers:
        caller.start()
    for _ in range(ANSWERED_BEFORE_KILL + 17 * round_number):
        assert enough.acquire(timeout=WAIT_SECONDS)
    own_server.kill()
    for caller in callers:
        caller.join(WAIT_SECONDS)
        assert not caller.is_alive()
    own_server.start()
    client = make_client(own_server.broker_url)
    stored: dict[str, str] = {}
    for partition in range(2):
        reader = client.create_reader(
            f"persistent://public/default/rest-partition-{partition}", pulsar.MessageId.earliest
        )
        while reader.has_message_available():
            message = reader.read_next(10_000)
            text, place = message.data().decode(), message.message_id()
            assert text not in stored, "no call was repeated, so no message is there twice"
            assert message.partition_key() == text
            stored[text] = f"{place.ledger_id()}:{place.entry_id()}:{partition}"
    answered = {text: place for caller in callers for text, place in caller.answered.items()}
    assert len(answered) >= 3 * ANSWERED_BEFORE_KILL
    assert {text: stored.get(text) for text in answered} == answered
    assert set(stored) <= {text for caller in callers for text in caller.sent}


def test_a_file_with_curl(server: Server, topic: str, tmp_path: Any, make_client: ClientFactory) -> None:
    """Runs the example of docs/WEBSOCKET.md."""
    curl = shutil.which("curl") or unavailable("needs curl")
    web, path = server.address.web_url, topic.replace("://", "/")
    file = tmp_path / "message.json"
    file.write_text('{"messages": [{"payload": "hello", "key": "greeting", "properties": {"lang": "en"}}]}')
    subprocess.run([curl, "-sfL", "-X", "PUT", f"{web}/admin/v2/{path}"], check=True)
    command = [curl, "-sfL", "-d", f"@{file}", "-H", "Content-Type: application/json", f"{web}/topics/{path}"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert [each["errorCode"] for each in answer["messagePublishResults"]] == [0]
    reader = make_client(server.broker_url).create_reader(topic, pulsar.MessageId.earliest)
    message = reader.read_next(10_000)
    assert (message.data(), message.partition_key(), message.properties()) == (b"hello", "greeting", {"lang": "en"})


def test_a_topic_that_is_unloaded_meanwhile_loses_nothing(
    server: Server, topic: str, make_client: ClientFactory
) -> None:
    web, path = server.address.web_url, topic.replace("://", "/")
    call("PUT", f"{web}/admin/v2/{path}")
    enough = threading.Semaphore(0)
    answered: list[str] = []
    refusals: list[int] = []
    is_over = threading.Event()

    def publish() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            try:
                results = call("POST", f"{web}/topics/{path}", {"messages": [{"payload": str(number)}]})
            except urllib.error.HTTPError as refused:
                refusals.append(refused.code)
                continue
            if results["messagePublishResults"][0]["errorCode"] == 0:
                answered.append(str(number))
                enough.release()

    caller = threading.Thread(target=publish)
    caller.start()
    try:
        for _ in range(5):
            for _ in range(10):
                assert enough.acquire(timeout=WAIT_SECONDS)
            call("PUT", f"{web}/admin/v2/{path}/unload")
    finally:
        is_over.set()
        caller.join(WAIT_SECONDS)
    reader = make_client(server.broker_url).create_reader(topic, pulsar.MessageId.earliest)
    stored = []
    while reader.has_message_available():
        stored.append(reader.read_next(10_000).data().decode())
    assert set(answered) <= set(stored)
    assert set(refusals) <= {503}, "a caller may try again"
