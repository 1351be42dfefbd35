"""Where a process has the project from, and how a process that lacks the project learns that."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

import magnetar

AFTER_IMPORT = "__import__('sys').path.insert(1, home) or __import__('pickle').loads(content)()"
"""What Python evaluates to make an object whose class is in the archive `home`."""


def archive_of_this() -> Path | None:
    """Returns the zip that this process has imported the project from, and None when the project is installed."""
    home = Path(magnetar.__file__).absolute().parents[1]
    return home if home.is_file() else None


def made_anywhere(make: Callable[..., object], *arguments: object) -> tuple[Any, ...]:
    """Returns what `__reduce__` may return for an object that `make(*arguments)` makes again. A process of the same
    machine that unpickles the object first puts this process's archive, if there is one, on its path."""
    home = archive_of_this()
    if home is None:
        return make, arguments
    content = cloudpickle.dumps(partial(make, *arguments))  # type: ignore[no-untyped-call]
    return eval, (AFTER_IMPORT, {"home": str(home), "content": content})
