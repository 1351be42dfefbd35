"""The WebSocket API: producers, consumers and readers of browsers and scripts, with JSON in text messages.

It stands beside `server/web`, whose port it shares, and calls the topics by the same interface that the client port
uses (`topics.client_connection.ClientConnection`). `upgrade.py` is what the web port hands its requests to. It may use
the web room, the broker, the configuration, security and the topics; it knows no command handler and no REST call.
"""
