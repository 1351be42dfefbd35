"""Leaks of a standalone server while it runs: looks, backups, removal and restoration beside clients' work.

Backups are folders below `leaks/` in the data folder. A caller names one by a word and not by a path, so nobody writes
elsewhere. One piece of work runs at a time. Each is a stream of `Told`, because it may take long.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from magnetar.metadata.errors import MetadataError
from magnetar.server.leaks.explaining import explain
from magnetar.server.leaks.leak_errors import LeakRefusal
from magnetar.server.leaks.leak_report import as_fields, as_lines
from magnetar.server.leaks.leak_steps import backup_result, check_second_look, noted, outcome_result, with_sizes
from magnetar.server.leaks.twice_seen_rules import seen_twice
from magnetar.storage.leaks.backup import Backup
from magnetar.storage.leaks.backup_rules import BackupDamaged
from magnetar.storage.leaks.finder import Findings, NotPulsar, Site, find
from magnetar.storage.leaks.orphan_rules import Caution
from magnetar.storage.leaks.removal import Outcome, remove, restore
from magnetar.storage.ledger.ledger_errors import LedgerError

log = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
"""What a backup may be called."""
FAULTS = (LeakRefusal, BackupDamaged, NotPulsar, MetadataError, LedgerError, OSError)
"""Errors that end a piece of work for a reason that its caller is told."""


class Told(NamedTuple):
    """A part of an answer: a result for programs and for people, or, without `fields`, a warning for people."""

    fields: dict[str, Any] | None
    text: str
    is_leak: bool = False
    """Whether there is something to do: a finding, or a record that is not in the wanted state."""


Work = AsyncGenerator[Told, None]
"""Raises one of FAULTS."""


class LiveLeaks:
    """The leaks of one server. `settled()` returns when the server is not deleting ledgers, `is_doomed` says that a
    ledger waits to be deleted by the server itself, and `unsettled()` returns the topics that are being compacted,
    closed or deleted."""

    def __init__(
        self,
        site: Site,
        folder: Path,
        clock_ms: Callable[[], int],
        *,
        settled: Callable[[], Awaitable[None]],
        is_doomed: Callable[[int], bool],
        unsettled: Callable[[], frozenset[str]],
    ) -> None:
        self._site = site
        self._folder = folder
        self._clock_ms = clock_ms
        self._settled = settled
        self._is_doomed = is_doomed
        self._unsettled = unsettled
        self._is_busy = False

    def check_name(self, name: str) -> None:
        """Raises LeakRefusal for a text that is no name of a backup."""
        if not NAME.fullmatch(name):
            raise LeakRefusal(f"{name!r} is no name of a backup: letters, digits, '.', '_' and '-', at most 64")

    def find(self, grace_ms: int, *, from_bookies: bool) -> Work:
        """Lists what nothing refers to."""

        async def work() -> Work:
            findings = await self._look(grace_ms)
            if from_bookies:
                complaints: list[str] = []
                findings = await with_sizes(self._site, findings, complaints.append)
                for complaint in complaints:
                    yield Told(None, complaint)
            yield await asyncio.to_thread(_report, findings)

        return self._alone(work())

    def explain(self, grace_ms: int, subject: str) -> Work:
        """Says who refers to a ledger or what a record is."""

        async def work() -> Work:
            explanation = await explain(self._site, self._caution(grace_ms), subject)
            yield Told(explanation.fields, explanation.text, explanation.found)

        return self._alone(work())

    def backup(self, grace_ms: int, name: str, *, entries: bool) -> Work:
        """Copies what `find` lists into a new backup."""

        async def work() -> Work:
            findings, folder = await self._look(grace_ms), self._folder / name
            made_ms, complaints = self._clock_ms(), list[str]()
            manifest = await Backup(folder).write(
                self._site, findings, made_ms, entries=entries, said=complaints.append
            )
            for complaint in complaints:
                yield Told(None, complaint)
            yield Told(*backup_result(manifest, folder))

        return self._alone(work())

    def remove(self, grace_ms: int, name: str, *, second_look_hours: int) -> Work:
        """Removes what a backup holds and a second look still finds."""

        async def work() -> Work:
            backup = Backup(self._folder / name)
            manifest = await backup.manifest()
            check_second_look(manifest, self._caution(grace_ms), second_look_hours)
            findings = await self._look(grace_ms)
            async with aclosing(_told(backup, remove(self._site, backup, manifest, findings))) as told:
                async for each in told:
                    yield each

        return self._alone(work())

    def restore(self, name: str) -> Work:
        """Puts back what was removed."""

        async def work() -> Work:
            backup = Backup(self._folder / name)
            manifest = await backup.manifest()
            async with aclosing(_told(backup, restore(self._site, backup, manifest))) as told:
                async for each in told:
                    yield each

        return self._alone(work())

    def _caution(self, grace_ms: int) -> Caution:
        return Caution(self._clock_ms(), grace_ms)

    async def _look(self, grace_ms: int) -> Findings:
        """Looks once, and a second time if there seems to be a leak."""
        first = await find(self._site, self._caution(grace_ms))
        if first.is_clean:
            return first
        await self._settled()
        unsettled = self._unsettled()
        second = await find(self._site, self._caution(grace_ms))
        confirmed = partial(seen_twice, first, second, is_doomed=self._is_doomed, unsettled=unsettled)
        return await asyncio.to_thread(confirmed)

    async def _alone(self, work: Work) -> Work:
        """Does a piece of work unless another one is under way."""
        if self._is_busy:
            raise LeakRefusal("another look at the server's leaks is under way: try again")
        self._is_busy = True
        try:
            async with aclosing(work):
                async for each in work:
                    yield each
        finally:
            self._is_busy = False


def _report(findings: Findings) -> Told:
    """Makes the report; on a thread of its own, because there may be a hundred thousand findings."""
    return Told(as_fields(findings), "\n".join(as_lines(findings)), not findings.is_clean)


async def _told(backup: Backup, outcomes: AsyncIterator[Outcome]) -> Work:
    async for outcome in noted(backup, outcomes):
        fields, text = outcome_result(outcome)
        log.info("leaks: %s (%s)", text, outcome.item.path)
        yield Told(fields, text, not outcome.done)
