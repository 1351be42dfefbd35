"""Topics whose messages are never stored: a message goes to the consumers that can take it at once, or is dropped. This
room uses the code that both domains share (`topics`, `publishing`, `subscriptions`); the broker's service creates the
topics."""
