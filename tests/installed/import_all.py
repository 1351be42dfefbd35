"""Imports every module of the packages that are named, and every name that their functions import when they run, and
prints what is missing. Modules of Spark and of the build are left out.

The interpreter of an installation runs this, so it must not need any test tools.
"""

import ast
import importlib
import pkgutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

NOT_OF_A_SERVER = (
    "magnetar.spark",
    "magnetar.testing.pytest_plugin",
    "magnetar.server.telemetry.export",
    "magnetar.server.telemetry.exporters",
    "pulsar_proto.pb.generate",
)
"""Modules that are left out: Spark's say themselves what to install, only pytest imports its plugin, those that import
OpenTelemetry run only where it is switched on, and the generator is a tool for our own tree."""

THEIR_EXTRA = ("magnetar.server.tools.messages.", "pulsar")
"""The modules that say themselves when their extra is not installed, and the package of that extra."""


def modules(package: str) -> list[str]:
    found = [package]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if module.name.startswith(NOT_OF_A_SERVER) or module.name.endswith(".__main__"):
            continue
        found += modules(module.name) if module.ispkg else [module.name]
    return found


def imported_names(module: ModuleType) -> Iterator[str]:
    """Returns the names of all modules that the module's text imports anywhere."""
    assert module.__file__ is not None
    for node in ast.walk(ast.parse(Path(module.__file__).read_bytes())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node):
            values = (each.value for each in node.args if isinstance(each, ast.Constant))
            yield from (value for value in values if isinstance(value, str) and not value.startswith("."))


def is_there(name: str) -> bool:
    if name.startswith(NOT_OF_A_SERVER):
        return True
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def is_of_their_extra(module: str, name: str) -> bool:
    room, package = THEIR_EXTRA
    return module.startswith(room) and name.split(".")[0] == package


def main() -> None:
    names = [name for package in sys.argv[1:] for name in modules(package)]
    missing: list[str] = []
    for name in names:
        try:
            module = importlib.import_module(name)
        except Exception:
            missing.append(f"{name}: {traceback.format_exc(limit=-1)}")
            continue
        missing += [
            f"{name}: needs {each}"
            for each in imported_names(module)
            if not is_there(each) and not is_of_their_extra(name, each)
        ]
    print("\n".join(missing), file=sys.stderr)
    print(len(names))
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
