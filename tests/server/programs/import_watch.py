"""A standalone server that records each module which it imports on its loop after the ready line.

Usage: `python -m tests.server.programs.import_watch REPORT standalone …`. The lines of the file REPORT are names of
modules.
"""

import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from magnetar.server.commands.main import main
from magnetar.server.programs.standalone import Standalone


class Watch:
    """A finder that finds nothing. Python asks it first for each module that is not loaded yet."""

    def __init__(self, report: Path) -> None:
        self._report = report

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if threading.current_thread() is threading.main_thread():
            with self._report.open("a") as report:
                report.write(f"{name}\n")
        return None


def watch_from_ready(report: Path) -> None:
    said = Standalone.ready_line

    def ready_line(server: Standalone) -> str:
        line = said(server)
        sys.meta_path.insert(0, Watch(report))
        return line

    setattr(Standalone, "ready_line", ready_line)  # noqa: B010


if __name__ == "__main__":
    watch_from_ready(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
