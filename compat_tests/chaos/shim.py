"""The preloaded library that moves a process's wall clock, and slows down its disk or fails its syncs."""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
COMPILERS = ("cc", "gcc", "clang")
FIELDS = ("clock_offset_ns", "sync_delay_ns", "sync_error", "syncs", "clocks")
FIELD = struct.Struct("=q")
COMPILE_SECONDS = 120
NS = 1_000_000_000


def compiler() -> str:
    """Returns a C compiler, or an empty text when there is none."""
    return next((found for name in COMPILERS if (found := shutil.which(name))), "")


def compile_shim(folder: Path) -> Path:
    """Compiles the library into a folder. Raises CalledProcessError."""
    library = folder / "shim.so"
    command = [compiler(), "-O2", "-Wall", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=COMPILE_SECONDS)
    return library


class Controls:
    """The control file of one process, which its library maps. It outlives the process."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(len(FIELDS) * FIELD.size))
        self.path = path
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def environment(self, library: Path) -> dict[str, str]:
        """Returns what a process's environment must have for the library to obey."""
        return {"LD_PRELOAD": str(library), "MAGNETAR_CHAOS_CONTROL": str(self.path)}

    def move_clock(self, seconds: float) -> None:
        self._set("clock_offset_ns", int(seconds * NS))

    def slow_syncs(self, seconds: float) -> None:
        self._set("sync_delay_ns", int(seconds * NS))

    def fail_syncs(self, error: int) -> None:
        """Makes each sync fail with an errno; 0 ends that."""
        self._set("sync_error", error)

    def plain(self) -> None:
        """Ends all faults."""
        self._map[: 3 * FIELD.size] = bytes(3 * FIELD.size)

    def noticed(self) -> int:
        """Returns how many calls the library has changed."""
        return self._get("syncs") + self._get("clocks")

    def _set(self, field: str, value: int) -> None:
        at = FIELDS.index(field) * FIELD.size
        self._map[at : at + FIELD.size] = FIELD.pack(value)

    def _get(self, field: str) -> int:
        (value,) = FIELD.unpack_from(self._map, FIELDS.index(field) * FIELD.size)
        return int(value)
