"""The WebSocket API: producers, consumers and readers of browsers and scripts, with JSON in text messages.

This room stands beside `server/web` and shares that room's port. The sessions call the topics through the interface
that the client port uses, too (`topics.client_connection.ClientConnection`), and reach the topics of other brokers
through the room `peers`. The web port hands requests for sockets to `upgrade.py`. This room may use the rooms `web`,
`broker`, `config`, `namespaces`, `peers`, `process`, `security` and the topics, and the packages below the server; it
uses no command handler and no REST call.
"""
