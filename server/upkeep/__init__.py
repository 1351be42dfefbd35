"""The periodic work on topics: messages and subscriptions expire, backlogs are cut, unused topics are deleted,
deduplication takes snapshots, and compaction begins. This package also disconnects clients that have lost a permission.

This package may import the topics, the settings, `process` and `security`. Only the program that builds a broker uses
this package.
"""
