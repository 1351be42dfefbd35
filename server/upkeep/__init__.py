"""The periodic work on topics: messages and subscriptions expire, backlogs are cut, unused topics are deleted,
deduplication takes snapshots, compaction begins; and clients that lost a permission are disconnected.

This room may use the topics, policies, settings and `security`; only the program that builds a broker uses this room.
"""
