"""Subscriptions of persistent topics: their consumers, the dispatchers that send to the consumers, the pure rules by
which dispatchers choose (`*_rules.py`), redelivery, and delayed delivery.

Subscriptions see their topic through Protocols. Topics of both domains, stats, the admin API and the protocol's
handlers use subscriptions."""
