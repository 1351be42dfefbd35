"""A server that records which modules it imports: a standalone server, or a broker of a cluster.

Usage: `python -m tests.server.programs.import_watch FOLDER standalone …`. Three files in the folder have the name of a
module in each line: AT_READY has what the main thread imported until the ready line, ON_LOOP what it imported after
that, and ON_THREADS what other threads imported at any time. All brokers of a cluster write to the same files. Other
programs run without a watch, so this module may stand for `magnetar` in a cluster.
"""

import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

AT_READY, ON_LOOP, ON_THREADS = "modules_at_ready", "imported_on_the_loop", "imported_on_threads"


class Watch:
    """A finder that finds nothing. Python asks it first for each module that is not loaded yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._of_start = list(sys.modules)
        self._is_ready = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_loop = threading.current_thread() is threading.main_thread()
        if is_loop and not self._is_ready:
            self._of_start.append(name)
        else:
            with (self._folder / (ON_LOOP if is_loop else ON_THREADS)).open("a") as report:
                report.write(f"{name}\n")
        return None

    def ready(self) -> None:
        """Called at the ready line."""
        self._is_ready = True
        (self._folder / AT_READY).write_text("\n".join(self._of_start))


PROGRAMS = {
    "standalone": ("magnetar.server.programs.standalone", "Standalone"),
    "broker": ("magnetar.server.programs.broker", "BrokerApp"),
}
"""The module and the class of each program that is watched."""


def watch(folder: Path, module: str, name: str) -> None:
    finder = Watch(folder)
    sys.meta_path.insert(0, finder)
    app = getattr(import_module(module), name)
    said = app.ready_line

    def ready_line(server: object) -> str:
        line: str = said(server)
        finder.ready()
        return line

    app.ready_line = ready_line


if __name__ == "__main__":
    if sys.argv[2] in PROGRAMS:
        watch(Path(sys.argv[1]), *PROGRAMS[sys.argv[2]])
    from magnetar.server.commands.main import main

    sys.exit(main(sys.argv[2:]))
