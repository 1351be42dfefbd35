"""Whether the storage can take writes now. The pages for probes ask this, and so does the program, which ends after a
fault."""

from collections.abc import Sequence
from typing import Protocol


class StoragePart(Protocol):
    """The metadata store or the bookie."""

    @property
    def fault(self) -> str | None:
        """The reason why this part takes no writes until a restart; None while there is no such reason."""

    @property
    def hindrance(self) -> str | None:
        """The reason why this part takes no writes now: its fault, or a full disk, which may get room again. None while
        it takes writes."""


class WriteReadiness:
    """The readiness of all parts of the storage together."""

    def __init__(self, parts: Sequence[StoragePart] = ()) -> None:
        """Without parts, the storage always counts as ready."""
        self._parts = parts

    @property
    def fault(self) -> str | None:
        """The reason why no write will be served until a restart, or None. After a failed sync nobody knows what is on
        the disk; only a restart, which reads the disk, can tell."""
        return next((part.fault for part in self._parts if part.fault is not None), None)

    @property
    def hindrance(self) -> str | None:
        """The reason why no write is served now, a fault or a full disk, or None. Reads are served from a full disk
        too."""
        return self.fault or next((part.hindrance for part in self._parts if part.hindrance is not None), None)
