"""Knows whether the storage can take writes now. The web pages for health probes use this module. The program that runs
the broker also uses this module, and ends the process after a fault."""

from collections.abc import Callable, Sequence
from typing import Protocol


class StoragePart(Protocol):
    """The interface of a part of the storage: the metadata store or the bookie of a standalone server, or a cluster's
    `MetadataLink`."""

    @property
    def fault(self) -> str | None:
        """The reason why this part takes no writes until a restart; None while there is no such reason."""

    @property
    def hindrance(self) -> str | None:
        """The reason why this part takes no writes now: its `fault`, or a reason that may go away, such as a full disk
        or a lost session. None while this part takes writes."""


class WriteReadiness:
    """The readiness of all parts of the storage together."""

    def __init__(self, parts: Sequence[StoragePart] = (), warning: Callable[[], str | None] = lambda: None) -> None:
        """Without parts, the storage always counts as ready. `warning` returns why the storage may soon take no
        writes, or None."""
        self._parts = parts
        self._warning = warning

    @property
    def fault(self) -> str | None:
        """The reason why the broker serves no write until a restart, or None. After a failed sync the content of the
        disk is unknown until a restart has read the disk."""
        return next((part.fault for part in self._parts if part.fault is not None), None)

    @property
    def hindrance(self) -> str | None:
        """The reason why the broker serves no writes now: a fault, a full disk or a lost session. None while the broker
        serves writes. A full disk does not stop reads."""
        return self.fault or next((part.hindrance for part in self._parts if part.hindrance is not None), None)

    @property
    def warning(self) -> str | None:
        """The reason why the broker may soon serve no writes, as a disk that is nearly full. None while there is no
        such reason, and while the broker serves no writes anyway."""
        return None if self.hindrance is not None else self._warning()
