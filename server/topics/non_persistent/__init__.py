"""Topics whose messages are never stored: a message goes to the consumers that can take it at once, or is dropped. The
room uses what both domains share (`topics`, `publishing`, `subscriptions`); the broker's service makes its topics.
"""
