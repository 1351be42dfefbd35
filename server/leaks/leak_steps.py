"""The steps between a look and its consequences: sizes that only bookies know, the wait before the second look, and
what became of each record."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from magnetar.server.leaks.leak_errors import LeakRefusal
from magnetar.storage.leaks.backup import Backup
from magnetar.storage.leaks.backup_rules import Manifest
from magnetar.storage.leaks.finder import Findings, Site
from magnetar.storage.leaks.orphan_rules import Caution
from magnetar.storage.leaks.removal import Outcome
from magnetar.storage.ledger.ledger_errors import LedgerError
from pulsar_proto.counted import counted

HOUR_MS = 3_600_000
OWN_STORE = "standalone"
"""The name of a standalone server's store in a backup."""


async def with_sizes(site: Site, findings: Findings, said: Callable[[str], None]) -> Findings:
    """Returns the findings with the sizes of ledgers that are not closed, as their bookies know them. A ledger whose
    bookies do not answer keeps its unknown size, and `said` gets a sentence about it."""
    judged = []
    for ledger, judgement in findings.judged:
        if ledger.entries is None and not ledger.fault:
            try:
                handle = await site.entries.open(ledger.ledger_id)
                ledger = replace(ledger, entries=handle.last_add_confirmed + 1, bytes=handle.length)
            except LedgerError as error:
                said(f"ledger {ledger.ledger_id}: {error}")
        judged.append((ledger, judgement))
    return replace(findings, judged=judged)


def backup_result(manifest: Manifest, folder: Path) -> tuple[dict[str, Any], str]:
    """Returns what a new backup holds, for programs and for people."""
    ledgers = [item for item in manifest.items if item.ledger_id is not None]
    entries = sum(item.entries.count for item in ledgers if item.entries is not None)
    return (
        {"folder": str(folder), "records": len(manifest.items), "ledgers": len(ledgers), "entries": entries},
        f"{folder}: {counted(len(manifest.items), 'record')}, {len(ledgers)} of them of ledgers, "
        f"{counted(entries, 'entry', 'entries')}; all were read back",
    )


def check_second_look(manifest: Manifest, caution: Caution, second_look_hours: int) -> None:
    """Raises LeakRefusal while the backup is too young for the second look, after which records are removed."""
    wait_ms = second_look_hours * HOUR_MS - caution.age_ms(manifest.made_ms)
    if wait_ms > 0:
        raise LeakRefusal(
            f"the backup was made less than {second_look_hours} h ago; the second look is due in "
            f"{counted(wait_ms // 60_000 + 1, 'minute')}"
        )


async def noted(backup: Backup, outcomes: AsyncIterator[Outcome]) -> AsyncIterator[Outcome]:
    """Yields the outcomes after each was written into the backup's log."""
    async for outcome in outcomes:
        item = outcome.item
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        await backup.note(f"{now} {item.path} (version {item.version}, {item.reason}): {outcome.text}")
        yield outcome


def outcome_result(outcome: Outcome) -> tuple[dict[str, Any], str]:
    """Returns what became of one record, for programs and for people."""
    item = outcome.item
    name = f"ledger {item.ledger_id}" if item.ledger_id is not None else item.path
    return (
        {"path": item.path, "ledgerId": item.ledger_id, "done": outcome.done, "text": outcome.text},
        f"{name}: {outcome.text}",
    )
