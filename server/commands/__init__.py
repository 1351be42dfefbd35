"""The subcommands of `magnetar`, one module each; `main` lists them.

`add_parser(commands)` of each module adds a parser and sets `run` in it: a function that takes the parsed arguments and
returns the exit code. A module imports the program that it runs inside `run` only, so that `--help` stays quick. This
package is the top layer: it may use the programs, the settings, `process` and `security`, and only the console script
uses it.
"""
