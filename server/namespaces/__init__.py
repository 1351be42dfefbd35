"""The namespaces of the cluster: their bundles and the owners of these, the answers to lookups, the topics, the rules
for creating topics, and the watchers that are informed of created and deleted topics.

This package may use the metadata store, policies, settings, addresses and `process`. Topics, the broker, the handlers
of client commands and the admin calls use this package.
"""
