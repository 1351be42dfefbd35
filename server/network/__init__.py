"""The ports of a server and the addresses that clients get: reserving and opening sockets, TLS, advertised listeners.

This package may use the configuration, `server/process`, the errors of security and the settings of connections to
bookies. Brokers, ports and programs use this package, which knows none of the protocols that are spoken on a socket.
"""
