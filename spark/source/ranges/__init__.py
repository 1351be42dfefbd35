"""Decides which messages of a topic partition a query reads, and whether all of them came.

All of it is pure arithmetic on message ids: it may use `pulsar_proto` only, and every other room of the data source may
use it.
"""
