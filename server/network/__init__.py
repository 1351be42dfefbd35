"""The ports of a server and the addresses that clients get: reserving and opening sockets, TLS, advertised listeners.

This room may use the configuration, the process room and the errors of security. Brokers, ports and programs use this
room, which knows none of the protocols that are spoken on a socket.
"""
