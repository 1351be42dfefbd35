"""Where the messages of `produce` come from: the command line, files, or the lines of a stream. Each comes with the
name by which a fault is told."""

import os
import select
from collections.abc import Iterable, Iterator

from magnetar.server.tools.messages.input_line_rules import LineCutter, LineParser
from magnetar.server.tools.messages.json_line_rules import Outgoing
from magnetar.server.tools.messages.tool_errors import ToolError

READ_BYTES = 1 << 16
LOOK_SECONDS = 0.1
"""How long a stream may be silent until the caller has its turn."""

Named = tuple[str, Outgoing]
"""A message, and the name by which a fault is told: "line 17"."""


def from_texts(texts: Iterable[str]) -> Iterator[Named]:
    """Yields the texts of the command line, byte for byte."""
    for number, text in enumerate(texts, start=1):
        yield f"message {number}", Outgoing(text.encode("utf-8", "surrogateescape"))


def from_files(paths: Iterable[str], bytes_max: int) -> Iterator[Named]:
    """Yields the content of each file as one message. Raises ToolError for a file that cannot be read or is too
    large."""
    for path in paths:
        try:
            with open(path, "rb") as file:
                content = file.read(bytes_max + 1)
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None
        if len(content) > bytes_max:
            raise ToolError(f"{path} has more than {bytes_max} bytes")
        yield path, Outgoing(content)


def from_stream(descriptor: int, cutter: LineCutter, parse: LineParser) -> Iterator[Named | None]:
    """Yields the messages of a stream's lines, and None whenever the stream is silent for a moment. Raises ToolError
    for a line that is no message; the lines before it were yielded."""
    number = 0
    is_open = True
    while is_open:
        if not select.select([descriptor], [], [], LOOK_SECONDS)[0]:
            yield None
            continue
        data = os.read(descriptor, READ_BYTES)
        is_open = bool(data)
        lines = cutter.feed(data) if data else cutter.end()
        while True:
            try:
                line = next(lines, None)
                if line is None:
                    break
                number += 1
                message = parse(line)
            except ValueError as error:
                text = str(error)
                raise ToolError(text if text.startswith("line ") else f"line {number}: {text}") from None
            yield f"line {number}", message
