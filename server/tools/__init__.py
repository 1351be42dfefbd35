"""Clients that a person runs in a terminal, such as `magnetar admin`.

They talk to servers by HTTP or by the client protocol, to ours as to Apache's, and import nothing of the broker. Only
`server/commands` uses them. A command is over in a tenth of a second, so a module of this package imports what it needs
and no more.
"""
