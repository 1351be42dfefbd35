"""A build hook: in a wheel our packages stand inside `magnetar/`, and their imports say so.

The code says `from storage.ledger import …`, as it stands in the source tree. A wheel must not claim names such as
`server` or `storage` on a user's machine, so there the same line reads `from magnetar.storage.ledger import …`: an
installed Magnetar needs no search path of its own, and `magnetar.bookkeeper` and `magnetar.spark` can be imported by
anybody's program, also in the worker processes that unpickle them. Not part of the wheel.
"""

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSIDE = ("server", "storage", "metadata", "spark")
_IMPORT = re.compile(rf"^(\s*(?:from|import) )(?=(?:{'|'.join(INSIDE)})[. ])", re.MULTILINE)
_LEFT_OUT = {Path(__file__).name}


def inside_magnetar(source: str) -> str:
    """The module's text with every import of our packages by its installed name."""
    return _IMPORT.sub(r"\1magnetar.", source)


class WheelNames(BuildHookInterface):  # type: ignore[misc]  # hatchling is there while a wheel is built only
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """An editable installation keeps the source tree's names."""
        if version == "editable":
            return
        root = Path(self.root)
        self._made = Path(tempfile.mkdtemp(prefix="magnetar-wheel-"))
        _copy(root / "magnetar", self._made)
        for package in INSIDE:
            if (root / package).is_dir():
                _copy(root / package, self._made / package)
        build_data["force_include"][str(self._made)] = "magnetar"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self._made)


def _copy(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if not path.is_file() or "__pycache__" in path.parts or path.name in _LEFT_OUT:
            continue
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".py":
            copy.write_text(inside_magnetar(path.read_text("utf-8")), "utf-8")
        else:
            shutil.copyfile(path, copy)
