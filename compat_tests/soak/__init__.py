"""A soak: every feature at once on one server that is killed again and again, judged by an independent ledger."""
