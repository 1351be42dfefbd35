"""The load of the cluster's brokers: the report that each broker writes, and how the leader spreads bundles by these
reports.

This package may use the metadata store and its locks, namespaces, topics, settings, addresses and `process`. The
broker, its statistics and the programs use this package; the package `namespaces` knows it only by the protocol
`Placement`.
"""
