"""The programs, which commands run until they are told to stop. They are built from settings, wired, started and
stopped here.

`standalone` is broker, bookie and metadata in one process, `bookie/` a bookie of a cluster, `autorecovery` the healer
of lost copies, and `bk/` the operator's tool. This room may use every other room but the commands, and only they use
it."""
