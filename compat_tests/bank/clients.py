"""The clients of the bank: one Java process, whose lines of output are taken down as they come."""

import subprocess
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from compat_tests.bank.notes import ACCOUNTS
from compat_tests.harness import wait_until
from compat_tests.java.client_jars import CLIENT, JAVA
from compat_tests.maven_jars import class_path, need_java

CLIENTS = 20
ANSWER = "<<< "

TxnId = tuple[int, int]
"""The number of a coordinator, and that of a transaction there."""
ANSWER_SECONDS = 240.0
"""A client that is told to pause ends its transaction first, which may take several answers of a minute each. What is
asked meanwhile is answered afterwards."""


class Clients:
    """The running clients. Use it as a context manager; they begin with `go`. Every line of theirs is also written to
    the file `clients.log`."""

    def __init__(self, service_url: str, folder: Path, seed: int) -> None:
        need_java()
        self.counts: Counter[str] = Counter()
        """How often each step happened: try, done, fail, abort, leave and more."""
        self._asked: set[str] = set()
        self._open: dict[str, TxnId] = {}
        """The transactions that may be open, by their transfers."""
        self._answered: dict[str, frozenset[TxnId]] = {}
        """The transfers whose commit was answered, with the transactions that were open then."""
        self._told: Counter[str] = Counter()
        self._answers: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._log = (folder / "clients.log").open("w")
        self._errors_path = folder / "clients.errors"
        source, jars = Path(__file__).with_name("Bank.java"), class_path("pulsar-java-client", CLIENT)
        with self._errors_path.open("w") as errors:
            self._process = subprocess.Popen(
                [*JAVA, "-cp", jars, str(source), service_url, str(CLIENTS), str(len(ACCOUNTS)), str(seed)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reading = threading.Thread(target=self._take_down, daemon=True)
        self._reading.start()

    def __enter__(self) -> Self:
        self._wait_for("ready", 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()
        self._log.close()

    def go(self) -> None:
        """Lets the clients work."""
        self._tell("go")

    def pause(self) -> None:
        """Has the clients end their transactions and close their consumers, and returns when that is done."""
        self._tell("pause")

    def asked(self) -> set[str]:
        """Returns the transfers whose commit a client has asked for up to now."""
        self._tell("sync")
        with self._lock:
            return set(self._asked)

    def open(self) -> dict[str, TxnId]:
        """Returns the transactions of which no client knows yet that they have ended, by their transfers."""
        self._tell("sync")
        with self._lock:
            return dict(self._open)

    def have_ended(self, transfers: Iterable[str]) -> None:
        """Notes that the transactions of these transfers have ended."""
        with self._lock:
            for name in transfers:
                self._open.pop(name, None)

    def due(self) -> list[str]:
        """Returns the transfers whose commit was answered, and of which nothing can be held back any more: all
        transactions that were open at their answers have ended."""
        self._tell("sync")
        with self._lock:
            still_open = set(self._open.values())
            return [name for name, open_then in self._answered.items() if open_then.isdisjoint(still_open)]

    @property
    def committed(self) -> int:
        return self.counts["done"]

    def _tell(self, word: str) -> None:
        """Tells the program a word, and waits for its answer, which comes after all that it has said before."""
        assert self._process.stdin is not None
        with self._lock:
            self._told[word] += 1
            wanted = self._told[word]
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()
        self._wait_for(word, wanted)

    def _wait_for(self, word: str, count: int) -> None:
        def is_there() -> bool:
            if self._answers[word] < count and not self._reading.is_alive():
                raise AssertionError(f"the clients have ended: {self._errors_path.read_text()[-2_000:]}")
            return self._answers[word] >= count

        wait_until(is_there, f"the clients answer {word!r}", ANSWER_SECONDS)

    def _take_down(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._log.write(line)
            self._log.flush()
            if line.startswith(ANSWER):
                self._answers[line.removeprefix(ANSWER).strip()] += 1
                continue
            step, _, rest = line.strip().partition(" ")
            name, _, rest = rest.partition(" ")
            with self._lock:
                self._note(step, name, rest)

    def _note(self, step: str, name: str, rest: str) -> None:
        """Notes a step of a transfer."""
        self.counts[step] += 1
        if step == "open":
            most, least = rest.strip("()").split(",")
            self._open[name] = int(most), int(least)
        elif step == "try":
            self._asked.add(name)
        elif step in ("done", "gone"):
            self._open.pop(name, None)
            if step == "done":
                self._answered[name] = frozenset(self._open.values())
