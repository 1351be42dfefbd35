"""The transaction buffer of a persistent topic: which transactions are open in the topic's log, which were aborted, how
far consumers may read, and the snapshots from which this is recovered.

This package may use the managed ledger, the schema registry, the settings of transactions and `process`. Topics, their
producers and subscriptions, compaction, stats, the admin calls and `server/why` use this package.
"""
