"""How a process of ours starts another one from the same installation."""

import os
import sys


def own_command() -> tuple[str, ...]:
    """Returns the beginning of a command line that runs `magnetar` as this process found it.

    `python -m` looks for modules in the working folder first, and the console script `magnetar` does not look there at
    all. In a checkout, children of the script would run the checkout's sources instead of the installation's compiled
    modules, and in any folder they would import a file of somebody else that is named as a module of Python. `-P` keeps
    them from it, unless this process looks in its working folder too.
    """
    looks_here = not {"", os.getcwd()}.isdisjoint(sys.path)
    return (sys.executable, *(() if looks_here else ("-P",)), "-m", "magnetar")
