"""Compaction: which messages of a topic's log are kept, how they are written to a ledger of their own, and how that
ledger is read.

This room may use the managed ledger, the ledger client and `process`. Topics and their subscriptions use this room, and
so, through them, do upkeep, stats and the admin calls.
"""
