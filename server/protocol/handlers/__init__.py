"""The handlers of clients' commands: a function for each command, in modules by subject. `command_table` lists them
all.

Handlers get the `Connection` that the command came on. They may use everything below the client port. Only the programs
import this room: they hand the table to the client port, which itself knows no handler.
"""
