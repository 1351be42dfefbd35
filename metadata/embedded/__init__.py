"""The metadata store inside one process: a tree in memory. One SQLite file makes the tree durable. A variant for tests
has no file.

The modules use `metadata` and `pulsar_proto`; the standalone program and tests choose this store, and all other code
knows the contract only.
"""
