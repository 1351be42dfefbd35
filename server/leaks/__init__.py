"""What the command `magnetar leaks` and the calls of a running standalone server share: looks that are explained to
people, and the steps from a backup to removal and restoration.

The room uses `storage/leaks`. `server/programs` gives a standalone server its `live_leaks`, `server/programs/leaks` is
the command, and `server/admin` has the calls.
"""
