"""The handlers that are imported late exist, and the routes import none of their modules."""

import subprocess
import sys
from importlib import import_module
from inspect import getclosurevars, iscoroutinefunction
from pathlib import Path

import pytest

from magnetar.server.admin import late_calls

ROOT = Path(__file__).resolve().parents[3]

ROUTES_ALONE = """
import sys
import magnetar.server.admin.routes

late = ("server.leaks", "server.why.answers", "storage.leaks", "server.admin.produce_calls", "server.websocket.upgrade")
assert not {f"magnetar.{name}" for name in late} & sys.modules.keys()
"""


def test_every_late_handler_exists() -> None:
    for route in late_calls.ROUTES:
        names = getclosurevars(route.handler).nonlocals
        handler = getattr(import_module(f"magnetar.server.admin.{names['module']}"), names["name"])
        assert iscoroutinefunction(handler), route


@pytest.mark.process
def test_the_table_of_routes_imports_no_late_module() -> None:
    subprocess.run([sys.executable, "-c", ROUTES_ALONE], cwd=ROOT, check=True, timeout=120)
