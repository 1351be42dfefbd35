"""One bookie: the durable log that keeps ledgers' entries on this machine's disks, and BookKeeper's port to it.

Adds go through the write cache and the journal, checkpoints move them to entry logs and the index, and a start replays
the journal. The room uses pulsar_proto only. It never uses `storage/ledger`, which is its client: the two communicate
through an interface (BookieChannel) or over the wire. `server/programs` starts it, and `server/config` reads its
settings."""
