"""The handlers of clients' commands: a function for each command, in modules by subject. `command_table` lists them
all.

A handler gets the `Connection` on which the command came. Handlers may use everything below the client port. Only the
programs import this package. They hand the table to the client port, which imports no handler.
"""
