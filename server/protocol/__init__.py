"""The client port: Pulsar's binary protocol on a socket, from frames to commands and back.

This room may use a broker (`server/broker`), its topics, and the permissions (`server/security`). What each command
does is in `handlers`, which use this room; only the programs use both.
"""
