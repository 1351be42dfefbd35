"""Whether writes can be served now: one state, which the pages for probes and the end of the process both ask."""

from collections.abc import Sequence
from typing import Protocol


class StoragePart(Protocol):
    """The metadata store, or the bookie."""

    @property
    def fault(self) -> str | None:
        """Why it takes no writes until a restart; None while that is not so."""

    @property
    def hindrance(self) -> str | None:
        """Why it takes no writes now: the fault, or a full disk, where waiting helps."""


class WriteReadiness:
    def __init__(self, parts: Sequence[StoragePart] = ()) -> None:
        """Without parts it is always ready."""
        self._parts = parts

    @property
    def fault(self) -> str | None:
        """Why no write will be served until a restart: what a disk holds after a failed sync is unknown."""
        return next((part.fault for part in self._parts if part.fault is not None), None)

    @property
    def hindrance(self) -> str | None:
        """Why no write is served now, by a fault or for want of room. Reads are served without room."""
        return self.fault or next((part.hindrance for part in self._parts if part.hindrance is not None), None)
