"""Starts the program: `magnetar.server` of an installation, `server` of a source tree (see `wheel_names`)."""

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Entry point of the console script."""
    here = Path(__file__).resolve().parent
    if (here / "server").is_dir():
        server_main = import_module("magnetar.server.main")
    else:
        sys.path.insert(0, str(here.parent))
        server_main = import_module("server.main")
    raise SystemExit(server_main.main())
