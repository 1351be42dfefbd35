"""The way of a message from a SEND to the topic's log: producers and their admission, deduplication, publish rates,
backlog quotas, the checks that policies ask for, and the handling of producers when storing fails.

It may use the base of topics (`topics`), policies, settings and the managed ledger. The topics of both domains use it,
and upkeep, which runs its timers.
"""
