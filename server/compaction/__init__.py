"""Compaction: this package decides which messages of a topic's log are kept, writes them to a ledger of their own (the
compacted ledger), and reads that ledger.

This package may use the managed ledger, the ledger client and `server/process`. Topics, their subscriptions, stats and
the admin calls use this package; upkeep uses it only through topics.
"""
