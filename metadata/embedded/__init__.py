"""The metadata store inside one process: a tree in memory, which one SQLite file makes durable. A variant for tests has
no file.

The modules use `metadata` and `pulsar_proto`. The standalone program and tests choose this store, and
`metadata.zookeeper_server` keeps its records in such a file. All other code uses only the contract `metadata.store`.
"""
