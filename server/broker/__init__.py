"""What a broker is, as one object that the client port, the web port and the statistics share.

It may use topics, namespaces, security and the addresses of the ports. Ports, statistics and programs use it; it knows
nothing of connections, commands or HTTP.
"""
