"""The broker, as one object that the client port, the web port and the statistics share.

This package may import topics, namespaces, policies, load, peers, security, the configuration and `process`. Ports,
admin calls, statistics and programs use this package. This package knows nothing of connections, commands or HTTP.
"""
