"""The interface by which a cursor stores its position. `CursorStore` implements it."""

from collections.abc import Callable, Mapping
from typing import Protocol

from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.ack_state import AckState


class PositionStore(Protocol):
    """The stored state of one cursor."""

    last_active_ms: int
    ledger_switched_ms: int

    @property
    def label(self) -> str: ...

    @property
    def cursor_properties(self) -> Mapping[str, str]: ...

    @property
    def ledger_id(self) -> int: ...

    @property
    def ledger_last_entry(self) -> int: ...

    def append_now(
        self, acks: AckState, properties: Mapping[str, int], done: Callable[[LedgerError | None], None]
    ) -> bool: ...

    async def persist(
        self, acks: AckState, properties: Mapping[str, int], failed: LedgerError | None = None
    ) -> None: ...

    async def set_cursor_properties(
        self, acks: AckState, properties: Mapping[str, int], cursor_properties: Mapping[str, str]
    ) -> None: ...

    async def close(self, acks: AckState, properties: Mapping[str, int], *, changed: bool) -> None: ...

    async def delete(self) -> None: ...
