"""Makes the bundle: one zip that Python imports the data source and the jobs from, with the libraries that they need
(`magnetar spark --bundle`)."""

import hashlib
import io
import json
import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

import magnetar
import pulsar_proto
from magnetar.spark.shipping.library_rules import LIBRARIES
from magnetar.spark.shipping.unpacking import ABI, LIBRARIES_FOLDER, MANIFEST

IMPORTED = re.compile(rb"^\s*from (magnetar(?:\.\w+)+) import ", re.MULTILINE)
LIBRARY_SUFFIXES = (".py", ".so", ".pyd")
LICENSES = ("LICENSE", "NOTICE", "COPYING")
PROVIDES_LIBRARIES = """

from pathlib import Path  # noqa: E402

from magnetar.spark.shipping.unpacking import provide_libraries  # noqa: E402

provide_libraries(Path(__file__).parents[1])
"""
"""What `magnetar/__init__.py` has in a bundle besides its own content."""


class LibraryMissing(Exception):
    """A bundle cannot be made here, because a library is not installed."""


@dataclass(frozen=True)
class Bundle:
    """The content of a bundle: the bytes of each file, by its name in the zip."""

    modules: dict[str, bytes]
    libraries: dict[str, bytes]
    versions: dict[str, str]

    @cached_property
    def content(self) -> bytes:
        """Returns the zip. The same files make the same bytes, because Spark refuses another content under a name that
        it knows."""
        manifest = {"abi": abi(), "digest": self._digest, "libraries": self.versions}
        files = {**self.modules, MANIFEST: json.dumps(manifest).encode(), **self.libraries}
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, content in files.items():
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        return made.getvalue()

    @property
    def name(self) -> str:
        """Returns a file name that stands for this content and no other."""
        return f"magnetar-spark-{hashlib.sha256(self.content).hexdigest()[:16]}.zip"

    @property
    def _digest(self) -> str:
        """Stands for the content of the libraries: unpacked ones are used again by a bundle with the same ones."""
        found = hashlib.sha256()
        for name, content in self.libraries.items():
            found.update(f"{name}:{len(content)}:".encode())
            found.update(content)
        return found.hexdigest()[:16]


def make_bundle() -> Bundle:
    """Returns a bundle of this installation and its libraries. Raises LibraryMissing."""
    libraries: dict[str, bytes] = {}
    for name in LIBRARIES:
        libraries |= _library(name)
    return Bundle(_modules(), libraries, {name: metadata.version(name) for name in LIBRARIES})


def write_bundle(path: str) -> int:
    """Writes a bundle for `magnetar spark --bundle` and says what is in it. Returns the exit code: 1 with a sentence on
    stderr when the bundle cannot be made or written."""
    try:
        bundle = make_bundle()
        Path(path).write_bytes(bundle.content)
    except (LibraryMissing, OSError) as error:
        print(f"magnetar spark --bundle: {error}", file=sys.stderr)
        return 1
    libraries = ", ".join(f"{name} {version}" for name, version in bundle.versions.items())
    print(f"{path}: magnetar {magnetar.__version__} for {abi()}, {len(bundle.content) / 1e6:.1f} MB")
    print(f"  with {libraries}")
    return 0


def abi() -> str:
    return str(sysconfig.get_config_var(ABI))


def _modules() -> dict[str, bytes]:
    """Returns the source files of the project that a bundle holds: all of `magnetar.spark` and `pulsar_proto`, and the
    modules of other packages that these import."""
    root, proto = Path(magnetar.__file__).parent, Path(pulsar_proto.__file__).parent
    files = {f"pulsar_proto/{path.relative_to(proto).as_posix()}": path.read_bytes() for path in proto.rglob("*.py")}
    waiting = [f"spark/{path.relative_to(root / 'spark').as_posix()}" for path in (root / "spark").rglob("*.py")]
    while waiting:
        path = waiting.pop()
        name = f"magnetar/{path}"
        if name not in files:
            files[name] = (root / path).read_bytes()
            for module in IMPORTED.findall(files[name]):
                waiting += _files_to_import(root, module.decode())
    files["magnetar/__init__.py"] = (root / "__init__.py").read_bytes() + PROVIDES_LIBRARIES.encode()
    return dict(sorted(files.items()))


def _files_to_import(root: Path, module: str) -> Iterator[str]:
    """Yields the files, below the folder of `magnetar`, that Python reads when it imports a module."""
    parts = module.split(".")[1:]
    for depth in range(1, len(parts) + 1):
        stem = "/".join(parts[:depth])
        yield f"{stem}/__init__.py" if (root / stem).is_dir() else f"{stem}.py"


def _library(name: str) -> dict[str, bytes]:
    """Returns the files of an installed library: its modules, compiled ones too, and its licences."""
    found = {}
    for file, path in _files_of(name):
        if path.name.startswith(LICENSES):
            found[f"{LIBRARIES_FOLDER}/{name}/licenses/{path.name}"] = path.read_bytes()
        elif path.suffix in LIBRARY_SUFFIXES or ".so." in path.name:
            found[f"{LIBRARIES_FOLDER}/{name}/{file}"] = path.read_bytes()
    return found


def _files_of(name: str) -> Iterator[tuple[str, Path]]:
    try:
        files = metadata.distribution(name).files or []
    except metadata.PackageNotFoundError:
        text = f"{name} is not installed beside {sys.executable}: pip install 'magnetar[spark]'"
        raise LibraryMissing(text) from None
    for file in sorted(files):
        if ".." not in file.parts:  # commands in bin/
            yield file.as_posix(), Path(str(file.locate()))
