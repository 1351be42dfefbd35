"""The namespaces of the cluster: their bundles, their topics, the rules for creating topics, and the watchers that are
told when topics come and go.

This room may use the metadata store, policies, settings and `process`. Topics, the broker, the handlers of client
commands and the admin calls use this room.
"""
