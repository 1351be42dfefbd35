"""A standalone server that records which modules it has at the ready line, and which it imports afterwards.

Usage: `python -m tests.server.programs.import_watch FOLDER standalone …`. The files AT_READY, ON_LOOP and ON_THREADS in
the folder have the name of a module in each line.
"""

import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

AT_READY, ON_LOOP, ON_THREADS = "modules_at_ready", "imported_on_the_loop", "imported_on_threads"


class Watch:
    """A finder that finds nothing. Python asks it first for each module that is not loaded yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_loop = threading.current_thread() is threading.main_thread()
        with (self._folder / (ON_LOOP if is_loop else ON_THREADS)).open("a") as report:
            report.write(f"{name}\n")
        return None


def watch_from_ready(folder: Path) -> None:
    from magnetar.server.programs.standalone import Standalone

    said = Standalone.ready_line

    def ready_line(server: Standalone) -> str:
        line = said(server)
        (folder / AT_READY).write_text("\n".join(sys.modules))
        sys.meta_path.insert(0, Watch(folder))
        return line

    setattr(Standalone, "ready_line", ready_line)  # noqa: B010


if __name__ == "__main__":
    from magnetar.server.commands.main import main

    watch_from_ready(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
