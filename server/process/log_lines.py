"""The log of every server: each record is one line, whatever a peer has sent.

Log messages quote names, versions and reasons that come from peers. A newline in such a text would let its sender forge
log lines, and escape sequences would reach the terminal of a person who reads the log. Therefore the formatter, which
every record passes, spells such characters out. Lines that begin with four spaces belong to the record above them.

With `--log-format json`, a record is a JSON object on one line instead, its stack included.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from magnetar.server.process.exhaustion_filter import ExhaustionFilter

TEXT, JSON = "text", "json"
"""The formats of the log."""

LINE_CHARACTERS_MAX = 8_192
"""The longest message that is written whole. Of a longer message the rest is cut off and only its length is logged,
because a text from a client can have megabytes."""

_CONTINUATION = "\n    "

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Matches control characters (among them every line end and the beginning of every escape sequence), line and paragraph
separators, changes of the writing direction, and halves of surrogate pairs."""


def cut(text: str) -> str:
    """Returns the text cut to LINE_CHARACTERS_MAX."""
    more = len(text) - LINE_CHARACTERS_MAX
    return f"{text[:LINE_CHARACTERS_MAX]}… and {more} characters more" if more > 0 else text


def one_line(text: str) -> str:
    """Returns the text cut to LINE_CHARACTERS_MAX, with unsafe characters written as escapes of Python's literals."""
    if len(text) <= LINE_CHARACTERS_MAX and text.isprintable():
        return text  # the usual case: no unsafe character is printable
    return _UNSAFE.sub(_spelled, cut(text))


def _spelled(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


class ShownRecord(logging.LogRecord):
    """A record with what the formatters of this module show, and with the place of the call as far as it was asked for.
    A connection that comes back with its consumer writes three records, and the base class spends as much time on facts
    that nobody sees as the formatter spends on the line."""

    def __init__(
        self,
        name: str,
        level: int,
        pathname: str,
        lineno: int,
        msg: object,
        args: Any,
        exc_info: Any,
        func: str | None = None,
        sinfo: str | None = None,
    ) -> None:
        # The attributes are those that `LogRecord.__init__` sets.
        self.name, self.levelno, self.levelname = name, level, logging.getLevelName(level)
        self.msg = msg
        self.args = args[0] if args and len(args) == 1 and isinstance(args[0], Mapping) and args[0] else args
        self.exc_info, self.exc_text, self.stack_info = exc_info, None, sinfo
        self.created = now_s = time.time()
        self.msecs = (now_s - int(now_s)) * 1000
        self.relativeCreated = 0.0
        self.pathname, self.lineno, self.filename, self.module = pathname, lineno, "", ""
        self.funcName = func or ""
        self.thread = self.threadName = self.process = self.processName = self.taskName = None


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream that is line-buffered, as the standard error is. Its filters see no records below
    WARNING."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Does what the base class does, in a third of the calls: a connection that comes back with its consumer writes
        three lines."""
        if record.levelno >= logging.WARNING:
            return super().handle(record)
        try:
            assert self.formatter is not None, "`log_to_stderr` sets one"
            line = self.formatter.format(record) + self.terminator
            with self.lock:  # type: ignore[union-attr]  # only a handler that was closed has none
                self.stream.write(line)
        except Exception:
            self.handleError(record)
        return True

    def flush(self) -> None:
        """Does nothing, because the stream has written every line already."""


class OneLineFormatter(logging.Formatter):
    """Formats a record as one line. The stack of an exception follows in indented lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self._second = -1
        self._second_text = ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Returns the local time with milliseconds, as the base class does. The text of a second is made once."""
        second = int(record.created)
        if second != self._second:
            self._second, self._second_text = second, time.strftime("%Y-%m-%d %H:%M:%S", self.converter(second))
        return f"{self._second_text},{int(record.msecs):03d}"

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info or record.exc_text or record.stack_info:
            return super().format(record)
        # What the base class makes of a record without a stack, in half the time.
        return f"{self.formatTime(record)} {record.levelname} {record.name} {one_line(record.getMessage())}"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802
        return _indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indented(stack_info)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object on one line: `time` (ISO 8601, UTC), `level`, `logger`, `message`, and
    `stack` if the record has an exception. All characters are printable ASCII, so no text of a peer can reach a
    terminal as an escape sequence."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        members = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": cut(record.getMessage()),
        }
        stack = [self.formatException(record.exc_info)] if record.exc_info else []
        if record.stack_info:
            stack.append(self.formatStack(record.stack_info))
        if stack:
            members["stack"] = "\n".join(cut(line) for line in "\n".join(stack).split("\n"))
        return json.dumps(members)


def with_process(line: str, name: str) -> str:
    """Returns a line of a process as a JSON object that names the process. `line` may be an object of `JsonFormatter`,
    or any other text, which becomes the `message`."""
    try:
        members = json.loads(line) if line.startswith("{") else None
    except ValueError:
        members = None
    if not isinstance(members, dict) or "message" not in members:
        members = {"message": cut(line)}
    return json.dumps({"process": name, **members})


def _indented(stack: str) -> str:
    return _CONTINUATION[1:] + _CONTINUATION.join(one_line(line) for line in stack.split("\n"))


def log_to_stderr(level: str, log_format: str = TEXT) -> None:
    """Configures the root logger. The program calls it once, before anything is logged. `log_format` is TEXT or JSON.

    The formatter shows neither threads nor places in the code, so records do not get them: when a thousand topics move
    to another broker, logging takes a tenth of the brokers' CPU time, and finding these facts would add to it.
    """
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # "Optimization" in the Logging HOWTO of Python
    logging.setLogRecordFactory(ShownRecord)
    handler = LineHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == JSON else OneLineFormatter())
    handler.addFilter(ExhaustionFilter())
    logging.basicConfig(level=level, handlers=[handler])
