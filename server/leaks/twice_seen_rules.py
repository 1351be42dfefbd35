"""What two looks in a row have both found. Between two steps of a running server, such as between a ledger's creation
and the record that names it, a ledger looks like a leak for a moment; a leak looks like one for ever."""

from collections.abc import Callable, Container
from dataclasses import replace

from magnetar.storage.leaks.finder import Findings
from magnetar.storage.leaks.orphan_rules import Verdict


def seen_twice(
    first: Findings, second: Findings, *, is_doomed: Callable[[int], bool], unsettled: Container[str]
) -> Findings:
    """Returns the second look's findings without what the first one did not have. `is_doomed` says of a ledger that the
    server deletes it by itself; such a ledger is no leak. Nor is a ledger of the topics in `unsettled`, which were
    being compacted, closed or deleted when the second look began: until that has ended, no record may name it."""
    orphans = {(ledger.ledger_id, ledger.version) for ledger, _ in first.orphans}
    leftovers = {(each.store, each.path, each.reason) for each in first.leftovers}
    return replace(
        second,
        dangling=[each for each in second.dangling if each in first.dangling],
        judged=[
            (ledger, judgement)
            for ledger, judgement in second.judged
            if judgement.verdict is not Verdict.ORPHAN
            or (
                (ledger.ledger_id, ledger.version) in orphans
                and not is_doomed(ledger.ledger_id)
                and ledger.topic not in unsettled
            )
        ],
        leftovers=[each for each in second.leftovers if (each.store, each.path, each.reason) in leftovers],
    )
