"""A ZooKeeper server of one node: its protocol, sessions, records and watches over one durable file.

This package uses `metadata/embedded` for the file, and may use `pulsar_proto`. Only `server/programs`, which builds the
server, and `server/config`, which fills its settings, use this package.
"""
