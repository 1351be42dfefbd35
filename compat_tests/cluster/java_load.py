"""Apache's Java client as the load of a test (`Load.java`), which says afterwards what was lost, out of order, or came
again although the broker had confirmed its acknowledgement."""

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from compat_tests.cluster.apache_seats import class_path
from compat_tests.java.client_jars import JAVA

ANSWER = "<<< "
END_SECONDS = 60


class Phase(NamedTuple):
    """What the load saw of one phase."""

    name: str
    goes_on: bool
    """Whether every publisher and every subscription went on after it."""
    gap_seconds: float
    """The longest time between two receipts of one publisher."""


class JavaLoad:
    """Publishers and consumers of `topics` topics whose names begin with `prefix`. Use it as a context manager."""

    def __init__(self, folder: Path, service_url: str, prefix: str, topics: int) -> None:
        source = Path(__file__).with_name("Load.java")
        self.errors_path = folder / "load-errors"
        self._errors = self.errors_path.open("w")
        self._process = subprocess.Popen(
            [*JAVA, "-cp", class_path(), str(source), service_url, prefix, str(topics)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.phases: list[Phase] = []

    def __enter__(self) -> Self:
        assert self._answer() == "ready"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(END_SECONDS)
        self._errors.close()

    def phase(self, name: str) -> None:
        """Ends the present phase once every publisher and every subscription has gone on, and begins the next one."""
        said = json.loads(self._ask(f"phase {name}"))
        self.phases.append(Phase(said["phase"], said["goes_on"], said["gap_seconds"]))

    def end(self) -> dict[str, Any]:
        """Ends publishing, lets the subscriptions receive what is left, and returns the account of all phases:
        `published`, `lost`, `repeats` by phase, `unanswered_acks`, and `faults`."""
        self.phase("the end")
        account: dict[str, Any] = json.loads(self._ask("end"))
        return account

    def _ask(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                return line.removeprefix(ANSWER).strip()
        raise AssertionError(f"the load ended: {self.errors_path.read_text()[-2_000:]}")
