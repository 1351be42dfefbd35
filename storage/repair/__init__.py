"""Auto-recovery of lost copies: the auditor marks ledgers that lack copies, and replication workers make new copies.

Auto-recovery runs inside a bookie or as a process of its own (`magnetar autorecovery`), also in a cluster where
Apache's auto-recovery runs. The operator's tool `magnetar bk` uses this package, too. This package uses
`storage/ledger` (the BookKeeper client) and the metadata store. `server/programs` starts auto-recovery, and
`server/config` reads its settings; no package of the broker uses it.
"""
