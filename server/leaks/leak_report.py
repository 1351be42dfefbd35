"""What `magnetar leaks` prints about its findings: lines for people, or one JSON object."""

from collections.abc import Iterable, Iterator
from typing import Any

from magnetar.storage.leaks.finder import Findings
from magnetar.storage.leaks.ledger_facts_rules import LedgerFacts
from magnetar.storage.leaks.orphan_rules import Judgement, Verdict
from pulsar_proto.counted import counted

KEPT = (Verdict.YOUNG, Verdict.OPEN, Verdict.UNREADABLE, Verdict.FOREIGN)
SHOWN_MAX = 1000
"""How many ledgers of a kind a text lists. JSON has all of them."""


def as_fields(findings: Findings) -> dict[str, Any]:
    """Returns the findings for JSON."""
    return {
        "ledgers": findings.ledgers,
        "dangling": [
            {"ledgerId": each.ledger_id, "path": each.path, "role": str(each.role)} for each in findings.dangling
        ],
        "orphans": [ledger_fields(*each) for each in findings.orphans],
        "damaged": [ledger_fields(*each) for each in findings.with_verdict(Verdict.DAMAGED)],
        "kept": [ledger_fields(*each) for each in findings.with_verdict(*KEPT)],
        "unknown": [ledger_fields(*each) for each in findings.with_verdict(Verdict.UNKNOWN)],
        "leftovers": [
            {
                "store": each.store,
                "path": each.path,
                "reason": each.reason,
                "records": len(each.nodes),
                "removable": each.removable,
            }
            for each in findings.leftovers
        ],
        "unreadable": [{"path": each.path, "why": each.why} for each in findings.blind],
        "counts": [
            {"verdict": str(verdict), "reason": reason, "ledgers": count}
            for (verdict, reason), count in sorted(findings.counts.items())
        ],
    }


def ledger_fields(ledger: LedgerFacts, judgement: Judgement) -> dict[str, Any]:
    return {
        "ledgerId": ledger.ledger_id,
        "verdict": str(judgement.verdict),
        "reason": judgement.reason,
        "text": judgement.text,
        "component": str(ledger.component),
        "owner": ledger.owner,
        "cursor": ledger.cursor,
        "entries": ledger.entries,
        "bytes": ledger.bytes,
        "closed": ledger.is_closed,
        "createdMs": ledger.created_ms,
    }


def as_lines(findings: Findings) -> Iterator[str]:
    """Yields the lines for people: the worst findings first."""
    if findings.dangling:
        yield f"DATA ARE LOST: {counted(len(findings.dangling), 'reference')} to ledgers that are gone"
        yield from _some(f"  ledger {each.ledger_id}: {each.path} ({each.role})" for each in findings.dangling)
    if findings.blind:
        yield f"{counted(len(findings.blind), 'record')} cannot be read; what they may refer to is kept"
        yield from _some(f"  {each.path}: {each.why}" for each in findings.blind)
    yield from _ledgers(
        findings, "ledger whose record cannot be read", "ledgers whose records cannot be read", Verdict.DAMAGED
    )
    yield from _ledgers(findings, "orphan", "orphans", Verdict.ORPHAN)
    yield from _ledgers(findings, "unreferenced ledger is kept", "unreferenced ledgers are kept", *KEPT)
    if unknown := findings.with_verdict(Verdict.UNKNOWN):
        yield counted(
            len(unknown),
            "unreferenced ledger was not made by Pulsar and is none of its orphans",
            "unreferenced ledgers were not made by Pulsar and are none of its orphans",
        )
    if findings.leftovers:
        yield f"{counted(len(findings.leftovers), 'record is', 'records are')} left over"
        yield from _some(
            f"  {each.path}{'' if each.removable else ' (not removed)'}: {each.reason}" for each in findings.leftovers
        )
    were = counted(findings.ledgers, "ledger was", "ledgers were")
    yield f"{were} looked at" + (": nothing to do" if findings.is_clean else "")


def _ledgers(findings: Findings, one: str, many: str, *verdicts: Verdict) -> Iterator[str]:
    found = findings.with_verdict(*verdicts)
    if not found:
        return
    entries = sum(ledger.entries or 0 for ledger, _ in found)
    size = sum(ledger.bytes or 0 for ledger, _ in found)
    yield f"{counted(len(found), one, many)}, with {counted(entries, 'entry', 'entries')} of {counted(size, 'byte')}"
    for (verdict, reason), count in sorted(findings.counts.items()):
        if verdict in verdicts:
            yield f"  {count} {verdict}: {reason}"
    yield from _some(f"  {ledger_line(*each)}" for each in found)


def ledger_line(ledger: LedgerFacts, judgement: Judgement) -> str:
    size = "not closed"
    if ledger.entries is not None:
        size = f"{counted(ledger.entries, 'entry', 'entries')}, {counted(ledger.bytes or 0, 'byte')}"
    return f"ledger {ledger.ledger_id} ({ledger.component}, {size}): {judgement.verdict}: {judgement.text}"


def _some(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == SHOWN_MAX:
            yield "  … and more: -o json has all of them"
            return
        yield line
