"""The way of a message from a SEND to the topic's log: producers and their admission, deduplication, publish rates,
backlog quotas, the checks that policies ask for, and the handling of producers when storing fails.

This room may use the base of topics (`topics`), policies, settings and the managed ledger. The topics of both domains
use this room, and so does upkeep, which runs the room's timers.
"""
