"""Decides which messages of a topic partition a query reads, and whether all of them came.

The modules are pure arithmetic on message ids. This package may use only `pulsar_proto`, and every other package of the
data source may use it.
"""
