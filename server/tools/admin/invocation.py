"""One run of one command: its values, its calls and what it prints. Commands of several steps are written against this
class."""

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from magnetar.server.tools.admin.admin_errors import CommandError
from magnetar.server.tools.admin.command_table import (
    LINES,
    MAP,
    NOTHING,
    QUOTED,
    RAW,
    Body,
    Call,
    Command,
    Query,
)
from magnetar.server.tools.admin.jackson_rules import pretty, printed, to_string
from magnetar.server.tools.admin.name_rules import Namespace, Topic

if TYPE_CHECKING:
    from magnetar.server.tools.connection.http_client import AdminHttp, Answer

TEXT_FORMAT = "text"
"""pulsar-admin's own shape."""
FORMATS = (TEXT_FORMAT, "table", "wide", "json", "yaml")
_EXPECTED = {LINES: list, MAP: dict}
ODD_CHARACTERS_MAX = 200
"""How much is shown of an answer that no broker gives."""
_KEY = re.compile(r"\{([^{}]+)\}")


class Invocation:
    """`values` are those of the command line. `form` is one of FORMATS."""

    def __init__(self, command: Command, values: Mapping[str, Any], http: "AdminHttp", form: str = TEXT_FORMAT) -> None:
        self.command = command
        self.values = dict(values)
        self.http = http
        self.form = form

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def topic(self) -> Topic:
        topic = self.values["topic"]
        assert isinstance(topic, Topic)
        return topic

    @property
    def namespace(self) -> Namespace:
        namespace = self.values["namespace"]
        assert isinstance(namespace, Namespace)
        return namespace

    def run(self) -> None:
        """Raises UsageError, CommandError, RefusedError and the errors of the connection."""
        action = self.command.action
        if isinstance(action, Call):
            answer = self.call(action)
            if self.command.output != NOTHING:
                self.show(answer.text() if self.command.output == RAW else value_of(answer))
        else:
            action(self)
        if self.command.message:
            self.say(self.filled(self.command.message, encoded=False))

    def call(self, call: Call) -> "Answer":
        """Makes a call of the table with this command's values."""
        return self.http.call(
            call.method, self.filled(call.path), self._query(call.query), _body(call.body, self.values)
        )

    def get(self, path: str, query: Query = ()) -> Any:
        """Returns the value that a GET of `path` answers; both may name keys in braces."""
        return value_of(self.call(Call("GET", path, query)))

    def filled(self, template: str, *, encoded: bool = True) -> str:
        """Returns the template with values in place of `{key}`."""
        return _KEY.sub(lambda match: self._part(match[1], encoded=encoded), template)

    def _part(self, key: str, *, encoded: bool) -> str:
        from urllib.parse import quote

        value = self.values[key.partition(".")[0]]
        if isinstance(value, Topic | Namespace):
            if "." in key:
                return str(getattr(value, key.partition(".")[2]))
            return value.path if encoded else value.text
        text = to_string(value)
        return quote(text, safe=":@!$&'()*,;=~") if encoded else text

    def _query(self, query: Query) -> list[tuple[str, str]]:
        pairs = []
        for name, template in query:
            key = _KEY.fullmatch(template)
            if key is None or self.values.get(key[1]) is not None:
                pairs.append((name, self.filled(template, encoded=False)))
        return pairs

    def say(self, text: str) -> None:
        """Prints a text with a line end."""
        sys.stdout.write(text + "\n")

    def show(self, value: Any, output: str = "") -> None:
        """Prints a value in the form that was asked for: as text, it looks as `output` says, else as the command's row
        says. Raises CommandError for a value that cannot look so."""
        if self.command.order and isinstance(value, dict):
            value = {key: value[key] for key in (*self.command.order, *value) if value.get(key) is not None}
        if self.command.stats:
            from magnetar.server.tools.admin.stats_rules import with_doubles

            value = with_doubles(value)
        if self.form == TEXT_FORMAT:
            _show_text(self, value, output or self.command.output)
        elif self.form == "json":
            self.say(pretty(value))
        else:
            from magnetar.server.tools.admin.terminal_rules import table, yaml

            self.say(yaml(value) if self.form == "yaml" else table(value, wide=self.form == "wide"))


def _show_text(invocation: Invocation, value: Any, output: str) -> None:
    """Prints as CliCommand.print does for a list, a map or anything else."""
    if output in _EXPECTED and not isinstance(value, _EXPECTED[output] | None):
        raise CommandError(f"the server's answer was not understood: {to_string(value)[:ODD_CHARACTERS_MAX]}")
    if output == LINES:
        for item in value or ():
            invocation.say(printed(item))
    elif output == MAP:
        for key, item in (value or {}).items():
            invocation.say(f"{key}    {to_string(item)}")
    elif output == QUOTED:
        invocation.say(pretty(value))
    else:
        invocation.say(value if output == RAW else printed(value))


def _body(body: Body, values: Mapping[str, Any]) -> Any:
    if body is None:
        return None
    return values[body] if isinstance(body, str) else body(values)


def value_of(answer: "Answer") -> Any:
    """Returns the value of an answer. A body that is not labelled as JSON and is none is a text, as for calls that
    answer with a bare word."""
    if not answer.body:
        return None
    import json

    try:
        return json.loads(answer.body)
    except ValueError:
        return answer.text()
