"""The changes that a ledger's metadata may go through. Each is a pure function from one value to the next.

A fragment is a run of entries with one ensemble. `ensembles` holds (first entry id, members) of each; the first one
begins at 0, the numbers increase, and entry e belongs to the last fragment that begins at or before e. The writer moves
the state from OPEN to CLOSED; recovery moves it from OPEN to IN_RECOVERY to CLOSED. Last entry and length of a closed
ledger never change (docs/LEDGERS.md).

A step is a function that returns the new metadata, or None when nothing needs to be written. It raises when the change
is impossible because another client has changed the metadata. `metadata_driver.LedgerMetadataDriver.update` runs steps
as compare-and-set.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from magnetar.storage.ledger.ledger_errors import LedgerClosed, LedgerFenced, MetadataVersion
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState

Members = tuple[str, ...]
Step = Callable[[LedgerMetadata], LedgerMetadata | None]
"""A change of a ledger's metadata. It returns None when nothing needs to be written."""


class Fragment(NamedTuple):
    """A run of entries with one ensemble: the first entry, the bookies, the last entry."""

    first: int
    members: Members
    last: int | None
    """The last entry id; None for the last fragment, which has no end yet."""


def fragment_of(metadata: LedgerMetadata, entry_id: int) -> Fragment:
    """Returns the fragment that the entry belongs to, or will belong to."""
    last: int | None = None
    for first, members in reversed(metadata.ensembles):
        if first <= entry_id:
            return Fragment(first, members, last)
        last = first - 1
    raise AssertionError(f"ledger {metadata.ledger_id} has no ensemble for entry {entry_id}: {metadata.ensembles}")


def last_fragment(metadata: LedgerMetadata) -> Fragment:
    return Fragment(*metadata.last_ensemble, last=None)


def with_ensemble(metadata: LedgerMetadata, first: int, members: Sequence[str]) -> LedgerMetadata:
    """Returns the metadata in which `members` hold every entry from `first` on. This adds a fragment, or replaces the
    members of the last fragment if that one is empty.

    `first` must not be below the last fragment's first entry, because other bookies hold the entries before it. The
    lower bound that recovery has for the LAC guarantees this.
    """
    last_first = metadata.last_ensemble[0]
    assert first >= last_first, f"ledger {metadata.ledger_id}: ensemble key {first} after {last_first}"
    assert len(members) == metadata.ensemble_size, (members, metadata.ensemble_size)
    kept = metadata.ensembles[:-1] if first == last_first else metadata.ensembles
    # LedgerMetadataBuilder of Apache's client drops the creation token, so every rewrite carries 0.
    return replace(metadata, ensembles=(*kept, (first, tuple(members))), ctoken=0)


def writer_ensemble(
    metadata: LedgerMetadata, first: int, change: Callable[[Members], Members]
) -> LedgerMetadata | None:
    """Returns the metadata after the writer has replaced bookies, or None when nothing changes. `change` maps the
    members of the last fragment to the new members.

    Raises LedgerClosed or LedgerFenced when recovery has taken over the ledger, and the errors of `change`.
    """
    if metadata.state is LedgerState.CLOSED:
        raise LedgerClosed(f"ledger {metadata.ledger_id} was closed by another client")
    if metadata.state is LedgerState.IN_RECOVERY:
        raise LedgerFenced(f"ledger {metadata.ledger_id} is being recovered by another client")
    members = last_fragment(metadata).members
    changed = change(members)
    return None if changed == members else with_ensemble(metadata, first, changed)


def writer_closed(metadata: LedgerMetadata, last_entry_id: int, length: int) -> LedgerMetadata | None:
    """Returns the metadata after its writer has closed the ledger, or None when the ledger is closed already with the
    same last entry and length. Raises MetadataVersion when it is closed with other values.

    Raises LedgerFenced while another client recovers the ledger. In that case Apache's client lets the writer close the
    ledger. Here the recoverer decides, so that no client's LAC is ever above the last entry in the metadata
    (docs/LEDGERS.md, "Closing").
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
    """Recovery's first step: returns the metadata with the state IN_RECOVERY, or None when the ledger is in recovery or
    closed already."""
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
    """Recovery's last step: returns the metadata of the closed ledger, with all ensemble changes that recovery made.

    `begun` is the metadata by which the entries were read. `changes` holds (first entry id, members) of each ensemble
    that replaced the last ensemble of `begun`. If another recoverer has closed the ledger, its result stands, and this
    step returns None. Raises MetadataVersion when the ledger is not in recovery any more, or its last ensemble is not
    that of `begun`.
    """
    if metadata.state is LedgerState.CLOSED:
        return None
    if metadata.state is not LedgerState.IN_RECOVERY or metadata.last_ensemble != begun.last_ensemble:
        raise MetadataVersion(f"ledger {metadata.ledger_id} changed while it was recovered")
    for first, members in changes:
        metadata = with_ensemble(metadata, first, members)
    return metadata.closed(last_entry_id, length)
