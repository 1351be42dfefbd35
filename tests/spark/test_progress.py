"""What a job says while it runs, and what it does on Ctrl-C."""

import io
import json
import signal
import sys
import threading
from typing import Any

import pytest

from magnetar.spark.jobs.progress import ERASE_LINE, CtrlC, QueryProgress, Teller


class Query:
    """Stands for Spark's query as far as `QueryProgress` looks at it. Each wait goes on to the next of `looks`, which
    are lists of steps."""

    def __init__(self, *looks: list[dict[str, Any]], error: Exception | None = None) -> None:
        self._looks = list(looks)
        self._error = error
        self.recentProgress: list[dict[str, Any]] = []
        self.status = {"isTriggerActive": False, "isDataAvailable": False}

    @property
    def isActive(self) -> bool:  # noqa: N802, Spark's name
        return bool(self._looks)

    def awaitTermination(self, seconds: float) -> None:  # noqa: N802
        self.recentProgress = self._looks.pop(0)

    def exception(self) -> Exception | None:
        return self._error


def step(batch: int, rows: int, milliseconds: int = 500) -> dict[str, Any]:
    return {"batchId": batch, "numInputRows": rows, "durationMs": {"triggerExecution": milliseconds}}


def watch(how: str, query: Any) -> QueryProgress:
    made = QueryProgress(Teller(how, "job"))
    made.watch(query)
    return made


def test_each_batch_is_a_line_for_people_once(capsys: pytest.CaptureFixture[str]) -> None:
    query = Query([step(0, 3000)], [step(0, 3000), step(1, 1000)])
    assert watch("text", query).read == 4000
    assert capsys.readouterr().err.splitlines() == [
        "batch 0: 3,000 messages in 0.5 s (6,000 a second), 3,000 in all",
        "batch 1: 1,000 messages in 0.5 s (2,000 a second), 4,000 in all",
    ]


def test_programs_are_told_that_nothing_was_there_too(capsys: pytest.CaptureFixture[str]) -> None:
    watch("json", Query([step(0, 0)], [step(0, 0)]))
    assert [json.loads(line) for line in capsys.readouterr().err.splitlines()] == [
        {"job": "job", "state": "idle", "rows": 0},
        {"job": "job", "state": "ended", "batches": 0, "rows": 0},
    ]


def test_what_is_to_come_is_said_when_the_source_knows_it(capsys: pytest.CaptureFixture[str]) -> None:
    behind = {"messages": 12000, "bytes": 5}
    known = {**step(0, 3000), "sources": [{"latestOffset": json.dumps({"t": "1:2", "behind": behind})}]}
    unknown = {**step(1, 10), "sources": [{"latestOffset": None}]}
    watch("text", Query([known, unknown]))
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("3,000 in all, about 12,000 to come")
    assert second.endswith("3,010 in all")
    watch("json", Query([known]))
    assert json.loads(capsys.readouterr().err.splitlines()[0])["behind"] == behind


@pytest.mark.parametrize(
    "latest",
    [
        pytest.param("{'persistent://public/default/t': '2:5'}", id="Spark 4.1"),
        pytest.param({"persistent://public/default/t": [8, 2, 16, 1]}, id="the published connector"),
        "",
    ],
)
def test_offsets_of_other_versions_and_sources_say_nothing_of_what_is_to_come(
    latest: object, capsys: pytest.CaptureFixture[str]
) -> None:
    watch("text", Query([{**step(0, 10), "sources": [{"latestOffset": latest}]}]))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("10 in all")


def test_programs_get_a_record_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    watch("json", Query([step(7, 10)]))
    first, last = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert first == {"job": "job", "batch": 7, "rows": 10, "seconds": 0.5}
    assert (last["state"], last["batches"], last["rows"]) == ("ended", 1, 10)


def test_none_is_silent_and_still_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert watch("none", Query([step(0, 5)])).read == 5
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_line_that_the_next_one_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    watch("text", Query([step(0, 5)], [step(0, 5), step(1, 0)], []))
    first, *passing = screen.getvalue().split(ERASE_LINE)[1:]
    assert first == "batch 0: 5 messages in 0.5 s (10 a second), 5 in all\n"
    assert passing[0].startswith("5 messages, waiting for more")
    assert screen.getvalue().endswith(ERASE_LINE)


def test_the_error_of_a_query_is_raised() -> None:
    with pytest.raises(RuntimeError, match="broken"):
        watch("none", Query([], error=RuntimeError("broken")))


def test_ctrl_c_ends_a_query_between_two_calls_and_hides_what_it_broke() -> None:
    class Interrupted(Query):
        def awaitTermination(self, seconds: float) -> None:  # noqa: N802
            super().awaitTermination(seconds)
            signal.raise_signal(signal.SIGINT)  # a KeyboardInterrupt here would break the call to Java
            raise RuntimeError("a worker crashed")

    before = signal.getsignal(signal.SIGINT)
    progress = QueryProgress(Teller("none", "job"))
    with pytest.raises(KeyboardInterrupt):
        progress.watch(Interrupted([step(0, 5)], [], error=RuntimeError("broken")))  # type: ignore[arg-type]
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_stops_what_runs_from_another_thread() -> None:
    stopped = threading.Event()

    def cancelled() -> None:
        with CtrlC(stopped.set):
            signal.raise_signal(signal.SIGINT)
            assert stopped.wait(30)
            raise RuntimeError("Spark's job was cancelled")

    with pytest.raises(KeyboardInterrupt):
        cancelled()
