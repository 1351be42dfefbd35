"""Shows the progress of a job on stderr, as lines for people or as JSON for programs, and handles Ctrl-C. On a
terminal, a passing line is replaced by the line after it.
"""

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from pulsar_proto.counted import counted

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS = 1
ERASE_LINE = "\r\x1b[K"


class Teller:
    """Prints a job's progress. `how` is text, json or none."""

    def __init__(self, how: str, job: str) -> None:
        self._how = how
        self._job = job
        self._is_terminal = how == "text" and sys.stderr.isatty()
        self._began = time.monotonic()

    def state(self, state: str, sentence: str = "", **more: Any) -> None:
        """Reports the state of the job: `state` (`starting`, `running`, `idle`, `ended` …) and `more` are for programs,
        `sentence` is for people."""
        if self._how == "json":
            self._print(json.dumps({"job": self._job, "state": state, **more}))
        elif self._how == "text" and sentence:
            self._print(f"{self._job}: {sentence}")

    def batch(
        self, number: int, rows: int, seconds: float, total: int, behind: Mapping[str, Any] | None = None
    ) -> None:
        """Reports a batch that is done. `total` counts the rows of all batches of this run, and `behind` says how far
        the batch was from the end of the topics, if that is known."""
        if self._how == "json":
            known = {"behind": behind} if behind else {}
            self._print(json.dumps({"job": self._job, "batch": number, "rows": rows, "seconds": seconds, **known}))
        elif self._how == "text":
            rate = f" ({rows / seconds:,.0f} a second)" if seconds else ""
            to_come = (behind or {}).get("messages")
            rest = f", about {to_come:,} to come" if to_come else ""
            self._print(
                f"batch {number}: {counted(rows, 'message', form=',')} in {seconds:.1f} s{rate}, {total:,} in all{rest}"
            )

    def passing(self, sentence: str) -> None:
        """Shows a sentence that is true only for the moment; the next line replaces the sentence. Has no effect without
        a terminal."""
        if self._is_terminal:
            seconds = time.monotonic() - self._began
            print(f"{ERASE_LINE}{sentence}, {seconds:.0f} s since the start", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Removes the sentence that `passing` has shown."""
        if self._is_terminal:
            print(ERASE_LINE, end="", file=sys.stderr, flush=True)

    def _print(self, line: str) -> None:
        print(f"{ERASE_LINE if self._is_terminal else ''}{line}", file=sys.stderr, flush=True)


class CtrlC:
    """Handles Ctrl-C inside a `with` block: the first Ctrl-C sets `pressed`, and a thread calls `stop` again and again
    until the block ends. A second Ctrl-C raises KeyboardInterrupt. PySpark's own handler would call Java while another
    call's answer is being read, which breaks both calls."""

    def __init__(self, stop: Callable[[], object] | None = None) -> None:
        self.pressed = False
        self._stop = stop
        self._before: Any = None
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        """After Ctrl-C, raises KeyboardInterrupt in place of an error: a terminal sends Ctrl-C to Spark's workers, too,
        so their tasks fail with errors of their own."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        self._ended.set()
        if self.pressed and kind is not None and issubclass(kind, Exception):
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        if self._stop is not None:
            threading.Thread(target=self._stop_all, args=(self._stop,), daemon=True).start()

    def _stop_all(self, stop: Callable[[], object]) -> None:
        stop()
        while not self._ended.wait(LOOK_SECONDS):  # a Spark job that was about to start is stopped, too
            stop()


class QueryProgress:
    """Shows what a streaming query does, and counts in `read` the rows that the query has read."""

    def __init__(self, teller: Teller) -> None:
        self.read = 0
        self._teller = teller
        self._told: set[int] = set()
        self._is_idle = False

    def watch(self, query: "StreamingQuery") -> None:
        """Returns when the query has ended. Raises the query's error, or KeyboardInterrupt after Ctrl-C."""
        with CtrlC() as ctrl_c:
            try:
                while query.isActive and not ctrl_c.pressed:
                    query.awaitTermination(LOOK_SECONDS)
                    self._tell(query)
                self._tell(query)
            finally:
                self._teller.clear()
        self._teller.state("ended", batches=len(self._told), rows=self.read)
        if ctrl_c.pressed:
            raise KeyboardInterrupt
        error = query.exception()
        if error is not None:
            raise error

    def _tell(self, query: "StreamingQuery") -> None:
        steps: list[Mapping[str, Any]] = list(query.recentProgress)
        for step in steps:
            rows = int(step["numInputRows"])
            if rows and step["batchId"] not in self._told:
                self._told.add(step["batchId"])
                self.read += rows
                self._is_idle = False
                seconds = step["durationMs"].get("triggerExecution", 0) / 1000
                self._teller.batch(step["batchId"], rows, seconds, self.read, _behind(step))
        if query.isActive and query.status["isTriggerActive"] and query.status["isDataAvailable"]:
            self._teller.passing(f"{counted(self.read, 'message', form=',')} so far, a batch is under way")
        elif steps and not steps[-1]["numInputRows"]:
            if not self._is_idle:
                self._is_idle = True
                self._teller.state("idle", rows=self.read)
            self._teller.passing(f"{counted(self.read, 'message', form=',')}, waiting for more")


def _behind(step: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the lag that the data source reports from Spark 4.2 on, and None when the source has reported none."""
    for source in step.get("sources", ()):
        latest = source["latestOffset"]  # an object, where the source is the published connector
        if isinstance(latest, str):
            try:
                latest = json.loads(latest)
            except ValueError:  # Spark 4.1 shows a source's offsets in its own notation, without the lag
                continue
        if isinstance(latest, dict) and "behind" in latest:
            found: Mapping[str, Any] = latest["behind"]
            return found
    return None
