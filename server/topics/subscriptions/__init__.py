"""Subscriptions of persistent topics: their consumers, the dispatchers that send to them, the pure choices that these
make (`*_rules.py`), and what comes again or later. They see their topic through Protocols; topics of both domains,
stats, the admin API and the protocol's handlers use them.
"""
