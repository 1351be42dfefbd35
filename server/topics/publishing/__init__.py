"""All code between a SEND and the topic's log: producers and their admission, deduplication, publish rates, backlog
quotas, the checks that policies ask for, and the handling of producers when storing fails.

This package may import the base of topics (`topics`), policies, settings and the managed ledger. Persistent and
non-persistent topics use this package. `server/upkeep`, which holds the periodic jobs, also uses this package and calls
its periodic work.
"""
