"""Answers why a subscription or a producer gets nothing, and what keeps a topic's ledgers, in plain words with the
figures behind them. The files `*_rules.py` decide by snapshots of plain values, and the other files take these
snapshots from topics and their logs, so this room may use the rooms of topics and the log. The admin API uses this
room.
"""
