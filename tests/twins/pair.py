"""A pair of servers that get the same scenarios."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compat_tests.harness import Server
from compat_tests.products import Magnetar
from tests.twins.player import Player, Trace
from tests.twins.scenario import DEDUPLICATING, scenario

PATIENCE = (0.0, 0.05, 0.2, 0.6)
"""Seconds after each step, for the tries of a scenario. A busy machine may answer late, and in the first tries that may
look like another answer."""
SHOWN = 3
SHOWN_CHARACTERS = 600
SETTINGS = {
    "transactionCoordinatorEnabled": "true",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "brokerDeleteInactiveTopicsEnabled": "false",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """What only one of the two answered, in the last try."""

    seed: int
    only_first: list[str]
    only_second: list[str]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: they answer differently"]
        for who, answers in (("first", self.only_first), ("second", self.only_second)):
            lines += [f"  only the {who}: {each[:SHOWN_CHARACTERS]}" for each in answers[:SHOWN]]
        return "\n".join(lines)


def difference(seed: int, first: Trace, second: Trace) -> Difference | None:
    """Compares whole scenarios: an answer that came one step later is the same answer."""
    counted, others = (Counter(each for step in trace for each in step) for trace in (first, second))
    if counted == others:
        return None
    return Difference(seed, list((counted - others).elements()), list((others - counted).elements()))


class Pair:
    def __init__(self, first: Server, second: Server) -> None:
        self.servers = (first, second)
        self._players = [Player(each.broker_port, each.web_url) for each in self.servers]
        self.answers: Counter[str] = Counter()
        """How many answers of each type the first server gave in first tries."""
        for player in self._players:
            player.call("PUT", f"/admin/v2/namespaces/{DEDUPLICATING}")
            player.call("POST", f"/admin/v2/namespaces/{DEDUPLICATING}/deduplication", True)

    def compare(self, seed: int) -> Difference | None:
        """Tries the scenario until both answer alike, with more patience each time. Raises TimeoutError when a server
        does not answer, and OSError when it is gone."""
        found = None
        for number, patience in enumerate(PATIENCE):
            made = scenario(seed, f"s{seed}t{number}")
            with ThreadPoolExecutor(len(self._players)) as threads:
                played = [threads.submit(each.play, made, patience) for each in self._players]
                first, second = (each.result() for each in played)
            if number == 0:
                told = (each.split("\n")[0].partition("type: ")[2] for step in first for each in step)
                self.answers.update(filter(None, told))
            found = difference(seed, first, second)
            if found is None:
                break
        return found


@contextmanager
def pair(folder: Path, first: Magnetar, second: Magnetar) -> Iterator[Pair]:
    """Starts both servers. Raises ServerFailedError at the end when a log has lines of errors."""
    one = Server(folder / "first", product=first, settings=SETTINGS)
    other = Server(folder / "second", product=second, settings=SETTINGS)
    with one, other:
        yield Pair(one, other)
    one.assert_no_errors()
    other.assert_no_errors()
