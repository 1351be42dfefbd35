"""A soak uses every feature at once on one server that is killed again and again; an independent ledger judges it."""
