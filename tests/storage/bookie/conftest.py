"""The bookie in memory behind a port, for the tests of the wire."""

from tests.storage.bookie.wire_support import served

__all__ = ["served"]
