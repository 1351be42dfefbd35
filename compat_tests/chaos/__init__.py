"""Chaos: a cluster of our real processes, each in a network namespace of its own, under faults of a seeded plan.

    make chaos ROUNDS=20 SEED=4711            # each round prints its seed, its plan and its result
    make chaos ROUNDS=1 SEED=4711 ARGS="--first 7"      # round 7 of that run again

`plan` draws the faults of a round from its seed, `faults` makes them and takes them back, `cluster` has the processes,
`load` the clients, `chaos_round` runs one round and asks the soak's judge.

Nothing of a run can be left over: `isolation` starts the whole program inside a namespace of processes, of mounts and
of networks, which the kernel ends with its first process. The network is the program `switch`: every process has a TUN
device, and the switch carries packets from one to the other, or drops and delays them. It stands in for a bridge with
netem and a packet filter, which kernels may lack; this way a link may fail in one direction only, too.
"""
