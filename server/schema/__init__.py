"""The schema registry: which schemas a topic has, what a definition must look like, and which version may follow
another version. The modules `*_rules.py` decide, `schema_storage.py` keeps the versions in ledgers, and
`schema_registry.py` uses the rules and the storage.

This package may import the metadata store and the ledger client. The configuration, policies, peers, topics, the
handlers of client commands and the admin calls use this package.
"""
