"""How a tool reaches a cluster: the settings from flags, environment, contexts and client.conf, and an HTTP client.

Every tool of `server/tools` may use this package, which itself uses only the reader of property files in
`server/config`. Spark's data source uses its logins by OAuth 2.0, and brokers judge each other's certificates
as tools do (`server_trust`). Begin with `settings.load_settings` and `http_client.AdminHttp`.
"""
