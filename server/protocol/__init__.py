"""The client port: Pulsar's binary protocol on a socket, from frames to commands and back.

This package may use a broker (`server/broker`), its topics and namespaces, `server/network`, `server/process`, and the
permissions (`server/security`). The work of each command is in the package `handlers`, which uses this package. Only
the programs use both packages.
"""
