"""Authentication and authorization: who a peer is, and what it may do.

A broker holds one `security.Security`. The room may use the configuration, names and metadata. Ports, brokers and
programs use it; it knows nothing of connections, commands or HTTP calls. A server whose security is off imports nothing
of it but `security_errors`.
"""
