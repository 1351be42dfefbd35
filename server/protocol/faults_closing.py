"""Closes a connection whose bytes could not be handled."""

import logging
from types import TracebackType
from typing import Protocol

from pulsar_proto.errors import MalformedFrame

log = logging.getLogger(__name__)


class Closable(Protocol):
    """A connection, as far as this module needs it."""

    @property
    def remote_address(self) -> str: ...

    def close(self, reason: str, level: int = logging.INFO) -> None: ...


class FaultsClosing:
    """A context manager for the handling of a peer's bytes. An error that is raised inside closes the connection, and
    no other. It is a class because each read enters it, and a generator costs a microsecond more."""

    __slots__ = ("_cnx",)

    def __init__(self, cnx: Closable) -> None:
        self._cnx = cnx

    def __enter__(self) -> None:
        """Does nothing, because only the end of the block matters."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        if isinstance(error, MalformedFrame):
            self._cnx.close(str(error), logging.WARNING)
        else:
            log.error("%s: a command could not be handled", self._cnx.remote_address, exc_info=error)
            self._cnx.close("an error of ours, see above", logging.ERROR)
        return True
