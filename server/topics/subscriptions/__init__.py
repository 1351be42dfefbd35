"""Subscriptions of persistent topics: their consumers, the dispatchers that send to the consumers, the pure rules by
which dispatchers choose (`*_rules.py`), redelivery, and delayed delivery.

Subscriptions see their topic through Protocols. Persistent and non-persistent topics, stats, the admin API and the
handlers of client commands use this package."""
