"""What each command of a client does: a function for each, in modules by subject, and `command_table` lists them all.

Handlers get the `Connection` that the command came on. They may use everything below the client port. Only the programs
import this room: they hand the table to the client port, which itself knows no handler.
"""
