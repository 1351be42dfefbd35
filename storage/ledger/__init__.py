"""The BookKeeper client: ledgers are created, written, read, followed, recovered and deleted here (docs/LEDGERS.md).

The decisions are made in `*_rules.py`, without I/O. Next to each of these is the shell that asks bookies and the
metadata store: `append_rules` and `ensemble_writer`, `read_rules` and `replica_reader`, `recovery_rules` and
`recoverer`. The room uses `metadata` and `pulsar_proto`, never the inner parts of a bookie: bookies are reached through
a `BookieChannel`. `storage/managed`, `storage/repair`, the programs of `server/` and `magnetar.bookkeeper` use it.
"""
