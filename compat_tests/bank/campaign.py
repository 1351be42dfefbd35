"""Rounds of the bank: the clients work, a server is killed, and they work on until some more transfers are committed;
then they pause, and the bank is judged."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compat_tests.bank.clients import Clients
from compat_tests.bank.observer import Observer
from compat_tests.bank.site import Site
from compat_tests.harness import wait_until

COMMITS_BEFORE = 5
"""How many transfers are committed before the moment of the kill is drawn."""
COMMITS_AFTER = 20
KILL_SECONDS = (0.0, 1.5)
GO_ON_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Round:
    number: int
    what: str
    seconds: float
    committed: int
    unknown: int
    """Commits whose answer was an error."""
    aborted: int
    cuts: int
    complaints: list[str]

    def __str__(self) -> str:
        told = f"{self.what}; {self.committed} committed, {self.unknown} unknown, {self.aborted} aborted"
        return f"round {self.number}: {told}, {self.cuts} cuts, {self.seconds:.1f} s"


class Campaign:
    """Rounds on one site, with the same clients and the same observer."""

    def __init__(self, site: Site, folder: Path, seed: int) -> None:
        self._site = site
        self._folder = folder
        self._seed = seed
        self._random = random.Random(seed)

    def run(self, rounds: int, tell: Callable[[Round], None]) -> list[Round]:
        """Runs rounds until one breaks a claim, and returns them. Raises AssertionError or TimeoutError when the bank
        stands still."""
        done: list[Round] = []
        url = self._site.service_url
        with Observer(self._site, self._folder) as observer, Clients(url, self._folder, self._seed) as clients:
            observer.begin(clients)
            while len(done) < rounds and not (done and done[-1].complaints):
                done.append(self._round(len(done) + 1, clients, observer))
                tell(done[-1])
        return done

    def _round(self, number: int, clients: Clients, observer: Observer) -> Round:
        began, before, cuts = time.monotonic(), clients.counts.copy(), observer.books.cuts
        clients.go()
        self._await_commits(COMMITS_BEFORE, clients, observer)
        time.sleep(self._random.uniform(*KILL_SECONDS))
        what = self._site.strike(self._random)
        self._await_commits(COMMITS_AFTER, clients, observer)
        clients.pause()
        self._site.await_quiet()
        observer.check()
        observer.judge_quiet()
        counts = clients.counts - before
        return Round(
            number,
            what,
            time.monotonic() - began,
            counts["done"],
            counts["fail"],
            counts["abort"],
            observer.books.cuts - cuts,
            list(observer.books.complaints),
        )

    def _await_commits(self, count: int, clients: Clients, observer: Observer) -> None:
        wanted = clients.committed + count

        def are_there() -> bool:
            observer.check()
            return clients.committed >= wanted

        wait_until(are_there, f"{count} more transfers are committed", GO_ON_SECONDS)
