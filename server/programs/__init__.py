"""The programs that commands run until they are told to stop. This package builds each program from settings, connects
its parts, and starts and stops it.

`standalone` is broker, bookie and metadata in one process, `bookie/` a bookie of a cluster, `autorecovery` restores
lost copies of ledgers, and `bk/` is the operator's tool. This package may use every other package but the commands, and
only the commands use this package."""
