"""The operator's tool `magnetar bk`: BookieShell's verbs for a BookKeeper cluster and for the files of a bookie.

A verb is a subcommand such as `listbookies`. `verbs` is the table of all verbs, and `verb_running` runs one verb. The
tool uses the storage and the settings; only the command `bk` uses the tool.
"""
