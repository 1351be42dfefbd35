"""The operator's tool `magnetar leaks`: finds, explains, backs up, removes and restores what nothing refers to any
more.

The tool uses `storage/leaks`, the settings and connections of `magnetar bk`, and a standalone server's storage. Only
the command `leaks` uses the tool.
"""
