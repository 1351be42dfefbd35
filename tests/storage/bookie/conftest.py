"""Fixtures for the tests of the wire: a bookie in memory behind a port."""

from tests.storage.bookie.wire_support import served

__all__ = ["served"]
