"""The client port: Pulsar's binary protocol on a socket, from frames to commands and back.

It may use a broker (`server/broker`), its topics, and who is allowed what (`server/security`). What the commands do is
in `handlers`, which use this room; only the programs use both.
"""
