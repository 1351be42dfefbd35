"""A ZooKeeper server of one node: its protocol, sessions, records and watches over one durable file.

This package uses `metadata/embedded` for the file, and `pulsar_proto`. Only the programs use this package, to build a
server.
"""
