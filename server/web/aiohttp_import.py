"""Imports the parts of aiohttp that serve requests, without its client and its framework for applications, which no
call of this process needs.

`import aiohttp` and `import aiohttp.web` import everything. The client takes as long as the server (50 ms), 5 MB of
memory, and 20 ms in which no other thread runs, while it reads the certificates of all authorities that the system
trusts. The framework takes 2.5 MB.
"""

import re
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

PACKAGE = "aiohttp"

SERVING = {
    "web_server": ("Server",),
    "web_protocol": ("RequestHandler", "RequestPayloadError"),
    "web_request": ("BaseRequest",),
    "web_response": ("Response", "StreamResponse"),
}
"""The names of `aiohttp.web` that this program uses, by the module of the package that defines them."""

_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


def import_aiohttp_web() -> None:
    """Imports the names of SERVING, so that `aiohttp.web` has them. The rest of `aiohttp.web` or of the package is
    imported as soon as something asks one of these modules for a name that it lacks. Has no effect when the package is
    imported already. Raises ImportError when aiohttp is not installed."""
    if PACKAGE in sys.modules:
        return
    try:
        _import_serving()
    except (ImportError, AttributeError):  # another version of aiohttp, whose parts depend on each other in another way
        for name in [each for each in sys.modules if each.partition(".")[0] == PACKAGE]:
            del sys.modules[name]
        import_module(f"{PACKAGE}.web")


def _import_serving() -> None:
    """Imports the modules of SERVING while `aiohttp` and `aiohttp.web` are empty, because the code of these two, which
    would import everything, has not run."""
    package, web = _empty(PACKAGE), _empty(f"{PACKAGE}.web")
    version = _VERSION.search(_loader(package).get_source(PACKAGE))
    if version is None:
        raise ImportError("aiohttp does not say its version where it used to")
    # `importlib.metadata`, which knows the version as well, takes 1 MB and 4 ms.
    package.__dict__.update(__version__=version[1], web=web)
    for name, names in SERVING.items():
        module = import_module(f"{PACKAGE}.{name}")
        web.__dict__.update({each: getattr(module, each) for each in names})
    for each in (package, web):
        _fill_on_demand(each)


def _empty(name: str) -> ModuleType:
    """Returns a module whose code has not run, and makes it the one that importers get."""
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = sys.modules[name] = module_from_spec(spec)
    return module


def _fill_on_demand(module: ModuleType) -> None:
    """Runs the module's code as soon as something asks the module for a name that it lacks (PEP 562)."""

    def whole(name: str) -> Any:
        del module.__dict__["__getattr__"]
        _loader(module).exec_module(module)
        return getattr(module, name)

    module.__dict__["__getattr__"] = whole


def _loader(module: ModuleType) -> Any:
    assert module.__spec__ is not None
    return module.__spec__.loader
