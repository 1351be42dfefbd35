"""The subcommands of `magnetar`, one module each.

`add_parser(commands)` adds its parser and sets `run` in it: a function that takes the parsed arguments and returns the
exit code. `main` lists the modules. A module imports what it runs inside `run` only: `--help` stays quick.
"""
