"""A record of the log is one line, whatever text of a peer it quotes."""

import io
import json
import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.process.log_lines import (
    LINE_CHARACTERS_MAX,
    JsonFormatter,
    LineHandler,
    OneLineFormatter,
    ShownRecord,
    one_line,
    with_process,
)

ROOT = Path(__file__).parents[3]
PRODUCT = ("magnetar", "metadata", "pulsar_proto", "server", "storage")

ANYTHING = st.text(st.characters() | st.sampled_from("\r\n\x0b\x0c\x1b\x85\x9b\u2028\u2029\u202e\ud800"))
RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ [\w.]+ ")
HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def logged(text: str, error: Exception | None = None, formatter: logging.Formatter | None = None) -> list[str]:
    """Returns the lines that the log has for a message that quotes `text`."""
    written = io.StringIO()
    handler = LineHandler(written)
    handler.setFormatter(formatter or OneLineFormatter())
    record = logging.LogRecord("server.x", logging.INFO, __file__, 1, "%s: peer said %s", ("a", text), None)
    if error is not None:
        record.exc_info = (type(error), error, error.__traceback__)
    handler.handle(record)
    end = written.getvalue()
    assert end.endswith("\n")
    return end[:-1].split("\n")


def raised(text: str) -> Exception:
    """Returns an error with a cause, which both quote `text`, after both were raised and caught."""
    try:
        try:
            raise KeyError(text)
        except KeyError as cause:
            raise ValueError(text) from cause
    except ValueError as error:
        return error


@pytest.mark.parametrize("formatter", [OneLineFormatter(), JsonFormatter()], ids=["text", "json"])
@pytest.mark.parametrize("args", [(), ("x", 7), ({"who": "x"},), ({},)], ids=str)
@pytest.mark.parametrize("error", [None, ValueError("x")], ids=["plain", "stack"])
def test_the_short_record_reads_as_the_one_of_the_library(
    formatter: logging.Formatter, args: tuple[object, ...], error: Exception | None
) -> None:
    exc_info = None if error is None else (type(error), error, None)
    text = {0: "100%", 1: "%s", 2: "%s has %d"}[len(args)]
    text = "%(who)s" if args == ({"who": "x"},) else text
    made = ("server.x", logging.WARNING, __file__, 1, text, args, exc_info, "function", None)
    known, short = logging.LogRecord(*made), ShownRecord(*made)
    known.created, known.msecs = short.created, short.msecs
    assert formatter.format(short) == formatter.format(known)
    assert set(vars(short)) >= set(vars(known))


@given(ANYTHING)
def test_text_of_a_peer_cannot_begin_a_line_or_reach_a_terminal(text: str) -> None:
    (line,) = logged(text)
    assert RECORD.match(line)
    assert not HARMFUL.search(line)


@given(ANYTHING)
def test_nor_can_it_in_the_stack_of_an_error(text: str) -> None:
    first, *stack = logged("x", raised(text))
    assert RECORD.match(first)
    assert stack
    for line in stack:
        assert line.startswith("    ")
        assert not HARMFUL.search(line)


@given(ANYTHING)
def test_a_record_in_json_is_one_line_of_printable_ascii_with_the_whole_text(text: str) -> None:
    (line,) = logged(text, raised(text), JsonFormatter())
    assert line.isascii()
    assert line.isprintable()
    record = json.loads(line)
    assert record["message"] == f"a: peer said {text}"
    assert (record["level"], record["logger"]) == ("INFO", "server.x")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["time"])
    assert record["stack"].startswith("Traceback")


def test_a_long_text_in_json_is_cut_too() -> None:
    (line,) = logged("x" * 1_000_000, formatter=JsonFormatter())
    assert len(line) < LINE_CHARACTERS_MAX + 300
    assert json.loads(line)["message"].endswith("characters more")


@given(ANYTHING)
def test_a_line_of_a_child_names_its_process_whatever_the_child_wrote(text: str) -> None:
    (record,) = logged(text, formatter=JsonFormatter())
    assert json.loads(with_process(record, "broker-1")) == {"process": "broker-1", **json.loads(record)}
    for line in (text, "{" + text, "[1]", '{"message'):
        named = json.loads(with_process(line, "broker-1"))
        assert named["process"] == "broker-1"
        assert named["message"] == line


def test_what_is_safe_stays_as_it_is() -> None:
    text = "/10.0.0.1:5 Zoë 東京 \U0001f680 \\n"
    assert one_line(text) == text
    assert "".join(logged("x", raised("y"))).count("Traceback") == 2


def test_a_long_text_is_cut() -> None:
    (line,) = logged("x" * 1_000_000)
    assert len(line) < LINE_CHARACTERS_MAX + 200
    assert line.endswith("characters more")


def test_filters_see_the_records_that_matter_and_a_stream_that_fails_harms_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.StringIO()
    handler = LineHandler(written)
    handler.setFormatter(OneLineFormatter())
    handler.addFilter(lambda record: "kept back" not in record.getMessage())
    for level in (logging.INFO, logging.WARNING):
        for text in ("said", "kept back"):
            handler.handle(logging.LogRecord("server.x", level, __file__, 1, text, (), None))
    assert [line.rsplit(" ", 2)[-1] for line in written.getvalue().splitlines()] == ["said", "back", "said"]
    monkeypatch.setattr(logging, "raiseExceptions", False)
    written.close()
    handler.handle(logging.LogRecord("server.x", logging.INFO, __file__, 1, "said", (), None))


@pytest.mark.parametrize("package", PRODUCT)
def test_there_is_no_other_way_into_the_log(package: str) -> None:
    door = ROOT / "server" / "process" / "log_lines.py"
    others = [
        path
        for path in (ROOT / package).rglob("*.py")
        if path != door and re.search(r"basicConfig|addHandler|logging\.\w*(Handler|Formatter)\b", path.read_text())
    ]
    assert others == []
