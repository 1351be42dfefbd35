"""The metadata store inside one process: a tree in memory, made durable in one SQLite file, or not at all for tests.

The modules use `metadata` and `pulsar_proto`; the standalone program and tests choose this store, everybody else knows
the contract only.
"""
