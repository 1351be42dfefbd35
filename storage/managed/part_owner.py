"""What the parts of a managed ledger ask of the managed ledger that they belong to."""

from collections.abc import Sequence
from typing import Protocol

from magnetar.storage.managed.gaps import Gap
from magnetar.storage.managed.keeping_rules import Need
from magnetar.storage.managed.ledger_writer import LedgerWriter
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError


class CursorOwner(Protocol):
    """The managed ledger of a cursor."""

    def request_trim(self) -> None:
        """Called when the mark-delete of a cursor has moved to another ledger."""

    async def trim_ended(self) -> None:
        """Waits until no trim is under way, and until it is certain which ledgers the stored list has. Raises
        MetaStoreFault, ManagedLedgerFenced."""

    def fence(self, error: ManagedLedgerError) -> None:
        """Called when another owner has taken over the managed ledger."""


class PartOwner(CursorOwner, Protocol):
    """The managed ledger of a part. Each part holds this one object instead of a callback for each of its methods,
    because a broker has many topics, and a callback takes 64 to 200 bytes."""

    @property
    def current_handle(self) -> LedgerWriter | None:
        """The handle of the list's current ledger."""

    @property
    def skips_lost_entries(self) -> bool:
        """Whether reads pass over lost entries."""

    async def gap_skipped(self, gap: Gap) -> None:
        """Called each time when a read passes over a gap."""

    async def check_owner(self) -> None:
        """Raises ManagedLedgerFenced when another owner has taken over the managed ledger, and MetaStoreFault."""

    def needs(self) -> Sequence[Need]:
        """Returns the durable cursors and the positions that are held like them."""

    def trimmed(self, ledger_ids: tuple[int, ...]) -> None:
        """Called when ledgers have left the list."""

    def highest_id(self) -> int:
        """Returns the greatest ledger id in any position of the managed ledger."""

    def ledger_labels(self) -> dict[str, bytes]:
        """Returns the custom metadata of ledgers that are made from now on."""

    def ledger_closed(self, garbage: Sequence[int]) -> None:
        """Called with the ledgers to delete, after the writing end has left a ledger, and for a new ledger that is not
        used."""

    def bury(self, ledger_ids: Sequence[int], use: str) -> None:
        """Deletes the ledgers in the background. `use` says which part used them."""

    def confirmed(self) -> None:
        """Called after the `done` of each confirmed group. Does not raise."""

    def fenced(self, error: ManagedLedgerError) -> None:
        """Called once when no more entries can be appended, because another owner has taken over. Does not raise."""
