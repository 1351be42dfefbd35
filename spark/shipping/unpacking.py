"""Makes the libraries in a bundle importable. The bundle's own `magnetar/__init__.py` calls `provide_libraries`, so
each process that imports the project from a bundle does so before it needs them.

Python imports the project's modules from the zip as they are, but not compiled libraries, which have to lie on the
disk. This module uses nothing but the standard library.
"""

import json
import os
import stat
import sys
import sysconfig
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path

from magnetar.spark.shipping.library_rules import LIBRARIES, fits

LIBRARIES_FOLDER = "libraries"
MANIFEST = "magnetar/bundle.json"
ABI = "SOABI"
"""Python's variable that names its version and the machine: compiled libraries of one value work with that value."""


def provide_libraries(home: Path) -> None:
    """Puts those of the bundle's libraries on Python's path that are not installed here, or in a version that does not
    fit. `home` is the bundle, or the folder that it was unpacked to. Raises ImportError when a library is missing and
    the bundle has it for another Python or another kind of machine."""
    missing = [name for name, bounds in LIBRARIES.items() if not fits(_installed(name), bounds)]
    if not missing:
        return
    content = json.loads(_manifest(home))
    if content["abi"] != sysconfig.get_config_var(ABI):
        raise ImportError(
            f"{home.name} has {', '.join(missing)} for {content['abi']}, and this Python is "
            f"{sysconfig.get_config_var(ABI)}: install them here, or make the bundle on such a machine"
        )
    folder = home / LIBRARIES_FOLDER if home.is_dir() else _unpacked(home.absolute(), content["digest"])
    sys.path[1:1] = [str(folder / name) for name in missing]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _manifest(home: Path) -> str:
    if home.is_dir():
        return (home / MANIFEST).read_text()
    with zipfile.ZipFile(home) as archive:
        return archive.read(MANIFEST).decode()


def _unpacked(archive: Path, digest: str) -> Path:
    """Returns a folder with the bundle's libraries: beside the bundle, where Spark deletes it together with the bundle,
    or in the folder for temporary files when the bundle's folder cannot be written to. Processes that come later find
    it again. Raises ImportError when neither place can be used."""
    name = f"magnetar-libraries-{digest}-{os.getuid()}"
    for parent in (archive.parent, Path(tempfile.gettempdir())):
        folder = parent / name
        if not folder.exists():
            _unpack(archive, folder)
        if _is_ours(folder):
            return folder
    raise ImportError(f"cannot unpack the libraries of {archive}: neither {archive.parent} nor {parent} is writable")


def _unpack(archive: Path, folder: Path) -> None:
    """Unpacks the libraries, so that other processes see all of them or nothing. Has no effect when the place cannot be
    written to, or another process was faster."""
    try:
        with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as staging:
            with zipfile.ZipFile(archive) as content:
                inside = [each for each in content.namelist() if each.startswith(f"{LIBRARIES_FOLDER}/")]
                content.extractall(staging, inside)
            os.rename(Path(staging) / LIBRARIES_FOLDER, folder)
    except OSError:
        return


def _is_ours(folder: Path) -> bool:
    """Returns whether the folder is there and was made by this user: others could have put anything into theirs."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
