"""A small blocking client of Pulsar: connections, lookups, one reader, subscription or producer a partition, and REST.

It may use `ranges` and `decoding`. The data source and the jobs use it on the driver and in executors alike.
"""
