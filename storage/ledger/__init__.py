"""The BookKeeper client: ledgers are created, written, read, followed, recovered and deleted here (docs/LEDGERS.md).

The modules `*_rules.py` make the decisions, without I/O. Each of them has a shell, the module that asks bookies and the
metadata store for it: `append_rules` and `ensemble_writer`, `read_rules` and `replica_reader`, `recovery_rules` and
`recoverer`. This package imports `metadata` and `pulsar_proto`, never the inner parts of a bookie: it reaches bookies
through a `BookieChannel`. `storage/managed`, `storage/repair`, rooms of `server/` (for example `programs`, `compaction`
and `schema`) and `magnetar.bookkeeper` use this package.
"""
