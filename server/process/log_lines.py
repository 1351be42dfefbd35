"""The log of every server: each record is one line, whatever a peer has sent.

Log messages quote names, versions and reasons that come from peers. A newline in such a text would let its sender forge
log lines, and escape sequences would reach the terminal of a person who reads the log. Therefore the formatter, which
every record passes, spells such characters out. Lines that begin with four spaces belong to the record above them.
"""

import logging
import re
import sys
import time

LINE_CHARACTERS_MAX = 8_192
"""The longest message that is written whole. Of a longer message the rest is cut off and only its length is logged,
because a text from a client can have megabytes."""

_CONTINUATION = "\n    "

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Matches control characters (among them every line end and the beginning of every escape sequence), line and paragraph
separators, changes of the writing direction, and halves of surrogate pairs."""


def one_line(text: str) -> str:
    """Returns the text cut to LINE_CHARACTERS_MAX, with unsafe characters written as escapes of Python's literals."""
    more = len(text) - LINE_CHARACTERS_MAX
    if more > 0:
        text = f"{text[:LINE_CHARACTERS_MAX]}… and {more} characters more"
    return _UNSAFE.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


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

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802
        return _indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indented(stack_info)


def _indented(stack: str) -> str:
    return _CONTINUATION[1:] + _CONTINUATION.join(one_line(line) for line in stack.split("\n"))


def log_to_stderr(level: str) -> None:
    """Configures the root logger. The program calls it once, before anything is logged.

    The formatter shows neither threads nor places in the code, so records do not get them: when a thousand topics move
    to another broker, logging takes a tenth of the brokers' CPU time, and finding these facts would add to it.
    """
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # "Optimization" in the Logging HOWTO of Python
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter())
    logging.basicConfig(level=level, handlers=[handler])
