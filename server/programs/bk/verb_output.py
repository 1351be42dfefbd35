"""The output of `magnetar bk`: results on stdout as text or JSON lines, progress and questions on stderr."""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from pulsar_proto.counted import counted

PROGRESS_SECONDS = 2.0
"""The seconds between two lines of progress. On a terminal, a single line is rewritten five times a second instead."""
TERMINAL_SECONDS = 0.2


class ToolOutput:
    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def result(self, fields: Mapping[str, Any], text: str | None = None) -> None:
        """Prints one result: with --json the fields as a JSON object on one line, otherwise the text, or lines of
        "name: value" if `text` is None."""
        if self.as_json:
            print(json.dumps(fields, default=str), flush=True)
            return
        if text is None:
            width = max(map(len, fields), default=0)
            text = "\n".join(f"{name:<{width}}  {value}" for name, value in fields.items())
        print(text, flush=True)

    def text(self, line: str) -> None:
        """Prints a line for people. With --json the line is left out."""
        if not self.as_json:
            print(line, flush=True)


class ToolProgress:
    """Shows the progress of a long verb on stderr, such as `3 ledgers copied`. `update` may be called at any time.
    `one` and `many` name the counted things, and `done` says what became of them."""

    def __init__(self, done: str, one: str = "ledger", many: str = "") -> None:
        self._done = done
        self._one, self._many = one, many
        self._began = self._shown = time.monotonic()
        self._on_terminal = sys.stderr.isatty()
        self._is_open = False

    def update(self, done: int, total: int | None = None, note: str = "") -> None:
        now = time.monotonic()
        if now - self._shown < (TERMINAL_SECONDS if self._on_terminal else PROGRESS_SECONDS):
            return
        self._shown = now
        if total is None:
            what = counted(done, self._one, self._many)
        else:
            share = f" ({100 * done // max(total, 1)} %)"
            what = f"{done} of {counted(total, self._one, self._many)}{share}"
        line = f"{what} {self._done}{', ' + note if note else ''}, {now - self._began:.0f} s"
        if self._on_terminal:
            sys.stderr.write(f"\r\x1b[K{line}")
            self._is_open = True
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self._is_open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_open = False


def readable(payload: bytes, limit: int = 4096) -> str:
    """Returns a payload for people to read: a text if the payload is text, otherwise hexadecimal digits; cut at the
    limit."""
    shown = payload[:limit]
    cut = f" … ({len(payload)} bytes)" if len(payload) > limit else ""
    try:
        text = shown.decode()
        if text.isprintable():
            return text + cut
    except UnicodeDecodeError:
        pass
    return shown.hex(" ", 4) + cut
