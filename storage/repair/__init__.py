"""Auto-recovery of lost copies: the auditor marks ledgers that lack copies, and replication workers make new copies.

It runs inside a bookie or as a process of its own (`magnetar autorecovery`), beside Apache's, and serves the operator's
`magnetar bk`. It stands on `storage/ledger` (the BookKeeper client) and the metadata store. `server/programs` starts it
and `server/config` reads its settings; no room of the broker uses it.
"""
