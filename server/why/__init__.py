"""Answers why a subscription or a producer gets nothing, as a list of reasons in plain words with the figures behind
them. The files `*_rules.py` decide by snapshots of plain values, and the other files take these snapshots from topics
and their logs, so this room may use the rooms of topics, the broker and the log. The admin API uses this room.
"""
