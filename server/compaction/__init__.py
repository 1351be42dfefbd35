"""Compaction: which messages of a topic's log are kept, how they are written to a ledger of their own, and how that
ledger is read.

It may use the managed ledger, the ledger client and `process`. Topics and their subscriptions use it, and through them
upkeep, stats and the admin calls.
"""
