"""Who a peer is, and what it may do: authentication and authorization.

`security.Security` is what a broker holds of it. The room may use the configuration, names and metadata. Ports, brokers
and programs use it; it knows nothing of connections, commands or HTTP calls. A server whose security is off imports
nothing of it but `security_errors`.
"""
