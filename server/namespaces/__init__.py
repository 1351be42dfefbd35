"""The namespaces of the cluster: their bundles, which topics they have, which topics may be created, and who is told
when topics come and go.

It may use the metadata store, policies, settings and `process`. Topics, the broker, the handlers of client commands and
the admin calls use it.
"""
