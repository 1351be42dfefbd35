"""Authentication and authorization: who a peer is, and what the peer may do.

A broker holds one `security.Security`. This package may use the configuration, names and metadata; it knows nothing of
connections, commands or HTTP calls. Ports, brokers and programs use this package. A server whose security is off
imports only `security_errors` from this package at its start; the web port imports the rules of authorization later.
"""
