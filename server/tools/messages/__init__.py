"""`magnetar produce`, `consume`, `read`, `bench` and `check`: messages of any Pulsar, in a terminal and in scripts.

The messages go through the official client, which is the extra `client`; `server/tools/connection` says where the
cluster is. Only `server/commands` uses this package.
"""
