"""The process `magnetar bookie`: the parts that a bookie needs in addition to its storage and its port to be a member
of a cluster.

This package uses the storage, the settings, and the package `web` for the HTTP port. The commands use this package, and
the program `autorecovery` takes the bookie's id from it.
"""
