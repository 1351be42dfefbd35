"""What is told about configuration keys: the command `magnetar config` and the page docs/CONFIGURATION.md.

This package reads the tables of keys and the settings classes of all programs, and starts nothing. Only the command
`config` uses it.
"""
