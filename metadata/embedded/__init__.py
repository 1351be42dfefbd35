"""The metadata store inside one process: a tree in memory, which one SQLite file makes durable. A variant for tests has
no file.

The modules use `metadata` and `pulsar_proto`; the standalone program and tests choose this store, and all other code
uses the contract `metadata.store` only.
"""
