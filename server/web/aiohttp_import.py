"""Imports aiohttp's server without its client, which no call of this process needs.

`import aiohttp` imports both. The client takes as long as the server (50 ms), 5 MB of memory, and 20 ms in which no
other thread runs, while it reads the certificates of all authorities that the system trusts.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

PACKAGE = "aiohttp"


def import_aiohttp_web() -> None:
    """Imports `aiohttp.web`. The rest of the package is imported as soon as something asks the package for a name that
    it lacks. Has no effect when the package is imported already. Raises ImportError when aiohttp is not installed."""
    if PACKAGE in sys.modules:
        return
    try:
        _import_web_alone()
    except ImportError:  # another version of aiohttp, whose parts depend on each other in another way
        for name in [each for each in sys.modules if each.partition(".")[0] == PACKAGE]:
            del sys.modules[name]
        import_module(f"{PACKAGE}.web")


def _import_web_alone() -> None:
    """Imports the module `aiohttp.web` while the package is empty, because the package's own code, which would import
    everything, has not run."""
    from importlib.metadata import version  # takes 4 ms, which the start of a server has not to wait for

    spec = find_spec(PACKAGE)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {PACKAGE!r}", name=PACKAGE)
    package = module_from_spec(spec)
    package.__dict__["__version__"] = version(PACKAGE)
    sys.modules[PACKAGE] = package
    import_module(f"{PACKAGE}.web")

    def whole(name: str) -> Any:
        """The package's `__getattr__` (PEP 562): runs the package's own code, which defines all names."""
        del package.__dict__["__getattr__"]
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(package)
        return getattr(package, name)

    package.__dict__["__getattr__"] = whole
