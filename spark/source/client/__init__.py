"""A small blocking client of Pulsar: connections, lookups, a reader, subscription or producer for one partition, and
REST.

This package may use `ranges`, `decoding`, and for logins by OAuth 2.0 `server/tools/connection`. The data source and
the jobs use the client on the driver and in executors alike.
"""
