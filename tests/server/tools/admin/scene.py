"""A client without a server, which records calls and answers them as the recording of Java's tool was answered."""

from typing import Any

from magnetar.server.tools.admin.groups import find_command, find_group
from magnetar.server.tools.admin.invocation import TEXT_FORMAT, Invocation
from magnetar.server.tools.admin.parsing_rules import parse_command
from magnetar.server.tools.admin.running import shared_reader
from magnetar.server.tools.connection.http_client import AdminHttp, Answer
from magnetar.server.tools.connection.settings import load_settings

BASE = "http://127.0.0.1:1"


class Recorded(AdminHttp):
    """Answers GET with 404 and every other call with 204, or as `answers` says by path."""

    def __init__(self, answers: dict[str, bytes] | None = None) -> None:
        super().__init__(load_settings({"webServiceUrl": BASE}, {"HOME": "/nowhere"}))
        self.calls: list[list[Any]] = []
        self.answers = answers or {}

    def _exchange(self, method: str, url: str, headers: dict[str, str], body: bytes | None, deadline: float) -> Answer:
        path = url.removeprefix(BASE)
        self.calls.append([method, path, body, headers.get("Content-Type")])
        if path in self.answers:
            return Answer(200, {}, self.answers[path])
        return Answer(404, {}, b'{"reason":"recorded"}') if method == "GET" else Answer(204, {}, b"")


def run_words(words: list[str], http: AdminHttp, form: str = TEXT_FORMAT) -> None:
    """Runs a command of the tables. Raises what the command raises."""
    group = find_group(words[0])
    assert group is not None, words
    command = find_command(group, words[1])
    assert command is not None, words
    parsed = parse_command(command, words[2:], shared_reader())
    Invocation(command, parsed.values, http, form).run()
