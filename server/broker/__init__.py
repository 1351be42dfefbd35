"""The broker, as one object that the client port, the web port and the statistics share.

This room may use topics, namespaces, security and the addresses of the ports. Ports, statistics and programs use this
room, which knows nothing of connections, commands or HTTP.
"""
