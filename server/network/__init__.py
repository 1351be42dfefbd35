"""The ports of a server and the addresses that clients get: reserving and opening sockets, TLS, advertised listeners.

It may use the configuration, the process and the errors of security. Brokers, ports and programs use it; it knows
nothing of what is spoken on a socket.
"""
