"""What may become of a ledger's metadata, step by step. Pure functions from one value to the next.

A fragment is a run of entries with one ensemble: `ensembles` holds (first entry id, members), first key 0, keys
strictly increasing, and entry e belongs to the greatest key <= e. The states go OPEN -> CLOSED by the writer, or
OPEN -> IN_RECOVERY -> CLOSED by recovery; a closed ledger's last entry and length never change (bookkeeper.md 3).

Each step returns the new metadata, None when nothing needs to be written, or raises when somebody else's change rules
it out. `metadata_driver.LedgerMetadataDriver.update` runs steps as compare-and-set.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from magnetar.storage.ledger.ledger_errors import LedgerClosed, LedgerFenced, MetadataVersion
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState

Members = tuple[str, ...]
Step = Callable[[LedgerMetadata], LedgerMetadata | None]


class Fragment(NamedTuple):
    first: int
    members: Members
    last: int | None
    """Last entry id, None for the last fragment."""


def fragment_of(metadata: LedgerMetadata, entry_id: int) -> Fragment:
    """The fragment that the entry belongs to (or will)."""
    last: int | None = None
    for first, members in reversed(metadata.ensembles):
        if first <= entry_id:
            return Fragment(first, members, last)
        last = first - 1
    raise AssertionError(f"ledger {metadata.ledger_id} has no ensemble for entry {entry_id}: {metadata.ensembles}")


def last_fragment(metadata: LedgerMetadata) -> Fragment:
    return Fragment(*metadata.last_ensemble, last=None)


def with_ensemble(metadata: LedgerMetadata, first: int, members: Sequence[str]) -> LedgerMetadata:
    """`members` take every entry from `first` on: a new fragment, or other members of an empty last one.

    A key below the last one would give entries away that others hold; recovery's floor for the LAC prevents it.
    """
    last_first = metadata.last_ensemble[0]
    assert first >= last_first, f"ledger {metadata.ledger_id}: ensemble key {first} after {last_first}"
    assert len(members) == metadata.ensemble_size, (members, metadata.ensemble_size)
    kept = metadata.ensembles[:-1] if first == last_first else metadata.ensembles
    # Java's builder drops the creation token: every rewrite carries 0 (bookkeeper.md 3, 12.13).
    return replace(metadata, ensembles=(*kept, (first, tuple(members))), ctoken=0)


def writer_ensemble(
    metadata: LedgerMetadata, first: int, change: Callable[[Members], Members]
) -> LedgerMetadata | None:
    """The writer's ensemble change: `change` maps the last members to the new ones.

    Raises LedgerClosed or LedgerFenced when recovery took the ledger over, and what `change` raises.
    """
    if metadata.state is LedgerState.CLOSED:
        raise LedgerClosed(f"ledger {metadata.ledger_id} was closed by another client")
    if metadata.state is LedgerState.IN_RECOVERY:
        raise LedgerFenced(f"ledger {metadata.ledger_id} is being recovered by another client")
    members = last_fragment(metadata).members
    changed = change(members)
    return None if changed == members else with_ensemble(metadata, first, changed)


def writer_closed(metadata: LedgerMetadata, last_entry_id: int, length: int) -> LedgerMetadata | None:
    """The writer's close. Closed already with the same values is success; with others MetadataVersion.

    Raises LedgerFenced while another client recovers the ledger. Java lets the writer close it then, the specification
    (bookkeeper.md 3 and 9) does not: the recoverer decides, so that its LAC is never above the metadata's.
    """
    if metadata.state is LedgerState.IN_RECOVERY:
        raise LedgerFenced(f"ledger {metadata.ledger_id} is being recovered by another client")
    if metadata.state is not LedgerState.CLOSED:
        return metadata.closed(last_entry_id, length)
    if (metadata.last_entry_id, metadata.length) != (last_entry_id, length):
        raise MetadataVersion(
            f"ledger {metadata.ledger_id} was closed at entry {metadata.last_entry_id} (length {metadata.length}), "
            f"not at {last_entry_id} ({length})"
        )
    return None


def mark_in_recovery(metadata: LedgerMetadata) -> LedgerMetadata | None:
    """Recovery's first step; nothing to write when another recovery has begun, or ended."""
    if metadata.state is not LedgerState.OPEN:
        return None
    return replace(metadata, state=LedgerState.IN_RECOVERY, ctoken=0)


def recovered(
    metadata: LedgerMetadata,
    begun: LedgerMetadata,
    changes: Sequence[tuple[int, Members]],
    last_entry_id: int,
    length: int,
) -> LedgerMetadata | None:
    """Recovery's last step: its ensemble changes and the end of the ledger, at once.

    `begun` is the metadata that the entries were read by, `changes` what took the place of its last ensemble. Another
    recoverer's close is adopted: None. Raises MetadataVersion when the ledger changed in any other way that matters.
    """
    if metadata.state is LedgerState.CLOSED:
        return None
    if metadata.state is not LedgerState.IN_RECOVERY or metadata.last_ensemble != begun.last_ensemble:
        raise MetadataVersion(f"ledger {metadata.ledger_id} changed while it was recovered")
    for first, members in changes:
        metadata = with_ensemble(metadata, first, members)
    return metadata.closed(last_entry_id, length)
