"""The program `magnetar cluster`: a process that supervises brokers, bookies and metadata of a cluster on one machine.

This package starts the other programs as child processes, by their command lines only. It uses the server's modules for
settings and for processes, and the ZooKeeper client of `metadata`. Only the command `cluster` uses this package.
"""
