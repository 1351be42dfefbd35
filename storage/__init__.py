"""The log: one bookie (`bookie`), BookKeeper's client (`ledger`), topics as endless logs on it (`managed`), and the
repair of lost copies (`repair`). Nothing here knows of the server; `server` stands on it."""
