"""Tests beside this file run on the ledger tests' loop, where time jumps to the next timer."""

from tests.storage.ledger.virtual_loop import run

__all__ = ["run"]
