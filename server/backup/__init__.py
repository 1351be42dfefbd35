"""Backups of a standalone server: the stream that a running server makes of its metadata and ledgers, the folder that
`magnetar backup` keeps of it, and the data folder that `magnetar restore` makes again.

The room uses the metadata file, the bookie and the tools' way to a server. Only `server/programs`, which gives a
standalone server its source of backups, and `server/commands` use the room.
"""
