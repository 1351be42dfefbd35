"""The WebSocket API: producers, consumers and readers of browsers and scripts, with JSON in text messages.

This room stands beside `server/web`, whose port it shares, and calls the topics by the same interface as the client
port (`topics.client_connection.ClientConnection`). The web port hands its requests for sockets to `upgrade.py`. The
room may use the web room, the broker, the configuration, security and the topics; it knows no command handler and no
REST call.
"""
