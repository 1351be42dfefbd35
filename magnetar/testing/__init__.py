"""A server for the tests of programs that use Pulsar: with pytest, with unittest, or with any other runner.

    with Server() as server:
        client = pulsar.Client(server.get_connection_url())

Begin with `server_process.py`, the server as a child process; `pytest_plugin.py`, `unittest_mixin.py` and
`run_command.py` are other faces of it. The package needs nothing of the server's code, except `in_process.py`, which
runs a server on the caller's event loop. docs/TESTING.md describes the whole.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.testing.in_process import InProcessServer
    from magnetar.testing.server_process import Server, ServerError
    from magnetar.testing.unittest_mixin import PulsarTestMixin

__all__ = ["InProcessServer", "PulsarTestMixin", "Server", "ServerError"]

_MODULES = {
    "InProcessServer": "in_process",
    "PulsarTestMixin": "unittest_mixin",
    "Server": "server_process",
    "ServerError": "server_process",
}


def __getattr__(name: str) -> object:
    """Imports the module of a class when somebody asks for the class: pytest imports this package in every project that
    has Magnetar installed, also where no test needs a server."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
