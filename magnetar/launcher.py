"""Makes the product's plain package names importable in this process only, then hands over to `server.main`.

The code says `from storage.ledger import …`, but a wheel must not claim names such as `server` or `storage` on a user's
machine. So an installed Magnetar keeps those packages inside `magnetar/`, and only this launcher puts that folder first
on the path. In a source tree they stand beside `magnetar/`.
"""

import sys
from pathlib import Path


def add_product_path() -> None:
    """Puts the folder that holds our `server` package first on `sys.path`."""
    installed = Path(__file__).resolve().parent
    for folder in (installed, installed.parent):
        if (folder / "server" / "main.py").is_file():
            sys.path.insert(0, str(folder))
            return
    raise SystemExit(f"magnetar: incomplete installation: no 'server' package in {installed}")


def main() -> None:
    """Entry point of the console script."""
    add_product_path()
    from server.main import main as server_main

    raise SystemExit(server_main())
