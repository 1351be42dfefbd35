"""Subscriptions of persistent topics: their consumers, the dispatchers that send to them, the pure rules by which these
choose (`*_rules.py`), redelivery, and delayed delivery. They see their topic through Protocols; topics of both domains,
stats, the admin API and the protocol's handlers use them."""
