"""The BookKeeper client: ledgers are created, written, read, followed, recovered and deleted here (docs/LEDGERS.md).

What decides stands in `*_rules.py` and does no I/O; beside it stands the shell that asks bookies and the metadata
store: `append_rules` and `ensemble_writer`, `read_rules` and `replica_reader`, `recovery_rules` and `recoverer`. The
room uses `metadata` and `pulsar_proto`, never a bookie's inside: bookies are reached through a `BookieChannel`.
`storage/managed`, `storage/repair`, the programs of `server/` and `magnetar.bookkeeper` use it.
"""
