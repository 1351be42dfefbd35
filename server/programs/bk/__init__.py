"""The operator's tool `magnetar bk`: BookieShell's verbs for a BookKeeper cluster and for the files of a bookie.

`verbs` is the table of all verbs, `verb_running` runs one. The tool uses the storage and the settings; only the command
`bk` uses it.
"""
