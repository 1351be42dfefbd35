"""One bookie: the durable log that keeps ledgers' entries on this machine's disks, and BookKeeper's port to it.

Adds go through the write cache and the journal, checkpoints move them to entry logs and the index, and a start replays
the journal. This package uses pulsar_proto only. The bookie never uses `storage/ledger`, the BookKeeper client: client
and bookie communicate through an interface (BookieChannel) or over the wire. `server/programs` starts the bookie, and
`server/config` reads the bookie's settings."""
