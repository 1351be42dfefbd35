"""Random histories of transactions, told to Apache's broker and to ours: both must answer alike and show the same
messages.

    make histories COUNT=200 SEED=7

`steps` draws a history from its seed, `replay` tells it to a broker by hand-written frames and takes down the answers,
and `differences` compares two replays, and knows by name the differences that `compat_tests/NOTES.md` lists. The folder
also has Apache's answers to some histories, which `make test` holds ours to without Java.
"""
