"""Finds ledgers and records of a Pulsar cluster that nothing refers to any more, copies them to files, removes them,
and puts them back.

The rules (`*_rules.py`) decide about bytes and names; the readers take these from the metadata stores and the bookies.
This package uses `storage/ledger` (the BookKeeper client), the metadata stores and the records of `pulsar_proto`. Only
the program of `magnetar leaks` uses it.
"""
