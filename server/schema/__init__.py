"""The schema registry: which schemas a topic has, what a definition must look like, and which version may follow which.
The `*_rules.py` decide, `schema_storage.py` keeps the versions in ledgers, and `schema_registry.py` asks both.

This room may use the metadata store, the ledger client and `process`. Policies, topics, the handlers of client commands
and the admin calls use this room.
"""
