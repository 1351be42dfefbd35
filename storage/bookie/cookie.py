"""Makes sure that the folders of the configuration belong to this bookie, that all its folders are there, and that no
other process uses them.

Every journal and ledger folder holds a file VERSION with Apache's cookie (BookKeeper's Cookie, format 5: a line with
the version, then CookieFormat as protobuf text). All these cookies must name the same bookie and cluster instance, and
fit the configuration. A tree of folders that was moved as a whole is accepted, and its cookies are rewritten; Apache's
bookie refuses such a tree.
"""

import fcntl
import logging
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_errors import DirectoryInUse, DirectoryMismatch
from magnetar.storage.bookie.durable_file import replace_file, sync_directory
from magnetar.storage.bookie.reserve import FILE_NAME as RESERVE_NAME

log = logging.getLogger(__name__)

FILE_NAME = "VERSION"
LOCK_NAME = "LOCK"
_FORMAT = 5
_OF_THE_FILE_SYSTEM = ("lost+found",)
"""Names that a file system itself puts into the root of a volume. These names do not count as files of a bookie, whose
folder may be the root of a volume."""
_LINE = re.compile(r'\s*(\w+)\s*:\s*"((?:[^"\\]|\\.)*)"\s*')
_ESCAPES = {"\\": "\\", '"': '"', "'": "'", "t": "\t", "n": "\n", "r": "\r"}


class Cookie(NamedTuple):
    """The owner of a folder: the bookie, its cluster instance, and the list of the bookie's folders."""

    bookie_id: str
    journal_directories: tuple[str, ...]
    ledger_directories: tuple[str, ...]
    instance_id: str

    def format(self) -> bytes:
        """Returns the bytes of the file VERSION."""
        ledgers = "\t".join([str(len(self.ledger_directories)), *self.ledger_directories])
        lines = [
            str(_FORMAT),
            f"bookieHost: {_quoted(self.bookie_id)}",
            f"journalDir: {_quoted(','.join(self.journal_directories))}",
            f"ledgerDirs: {_quoted(ledgers)}",
        ]
        if self.instance_id:
            lines.append(f"instanceId: {_quoted(self.instance_id)}")
        return ("\n".join(lines) + "\n").encode()


def parse_cookie(data: bytes) -> Cookie:
    """Reads the bytes of a cookie, in format 4 or 5. Raises ValueError."""
    version, _, body = data.decode("utf-8").partition("\n")
    if version.strip() not in ("4", "5"):
        raise ValueError(f"cookie version {version.strip()[:20]!r}")
    fields: dict[str, str] = {}
    for line in body.splitlines():
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {line[:60]!r}")
        fields[match.group(1)] = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), "?"), match.group(2))
    try:
        count, *ledgers = fields["ledgerDirs"].split("\t")
        cookie = Cookie(
            fields["bookieHost"], tuple(fields["journalDir"].split(",")), tuple(ledgers), fields.get("instanceId", "")
        )
    except KeyError as error:
        raise ValueError(f"no {error.args[0]}") from None
    if count != str(len(ledgers)):
        raise ValueError(f"{len(ledgers)} ledger directories instead of {count}")
    return cookie


def _content(directory: str) -> list[str]:
    """Returns the names of the files in a folder, without its cookie, its lock, its reserve and the file system's
    own files."""
    if not os.path.isdir(directory):
        return []
    return sorted(
        set(os.listdir(directory)) - {LOCK_NAME, RESERVE_NAME, FILE_NAME, FILE_NAME + ".new", *_OF_THE_FILE_SYSTEM}
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n")
    return f'"{escaped}"'


class BookieDirectories:
    """The folders of a bookie, locked against other processes from `claim` to `release`.

    `claim` checks the folders and changes nothing. After that the caller checks the content of the folders. `make_own`
    comes last: it creates missing folders and writes cookies. Thus a refused start has changed nothing."""

    def __init__(self, config: BookieConfig, bookie_id: str, instance_id: str) -> None:
        self.journals = tuple(map(os.path.abspath, config.journal_directories))
        self.ledgers = tuple(map(os.path.abspath, config.ledger_directories))
        self.cookie = Cookie(bookie_id, self.journals, self.ledgers, instance_id)
        self._may_grow = config.allow_storage_expansion
        self._locks: list[int] = []
        self._found: dict[str, Cookie] = {}

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.journals, *self.ledgers)))

    @property
    def is_new(self) -> bool:
        """Whether the bookie is new: `claim` found no cookie in any folder."""
        return not self._found

    @property
    def index(self) -> str:
        return os.path.join(self.ledgers[0], "index")

    @property
    def mark(self) -> str:
        return os.path.join(self.ledgers[0], "lastMark")

    def cookies(self) -> dict[str, Cookie | None]:
        """Returns the cookie of each folder, or None for a folder without a cookie. Raises DirectoryMismatch for a
        cookie that cannot be read."""
        return {directory: self._read(directory) for directory in self.all}

    def files(self) -> dict[str, list[str]]:
        """Returns for each folder the names of its files besides cookie and lock. Raises OSError."""
        return {directory: _content(directory) for directory in self.all}

    def claim(self) -> bool:
        """Checks the folders and locks those that have a cookie. Returns True when no folder has a cookie, so that all
        are new.

        Raises DirectoryInUse, DirectoryMismatch, OSError. No file but LOCK is changed in any case.
        """
        self._found = {directory: cookie for directory, cookie in self.cookies().items() if cookie is not None}
        if self._found:
            self._check(self._found)
        else:
            self._check_empty(self.all)
        try:
            self._lock(self._found)
        except BaseException:
            self.release()
            raise
        return not self._found

    def make_own(self) -> None:
        """Makes and locks the folders that are missing, and writes the cookies that are missing or that name former
        paths of the folders. Call it once, after `claim`. Raises DirectoryInUse, OSError."""
        new = [directory for directory in self.all if directory not in self._found]
        for directory in new:
            os.makedirs(directory, exist_ok=True)
        self._lock(new)
        for directory in new:
            if self._read(directory) is not None:
                raise DirectoryInUse(directory, None)  # Another process has taken the folder since `claim`.
        self._write(self._found)

    def release(self) -> None:
        while self._locks:
            os.close(self._locks.pop())

    def _read(self, directory: str) -> Cookie | None:
        path = os.path.join(directory, FILE_NAME)
        try:
            with open(path, "rb") as file:
                return parse_cookie(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DirectoryMismatch(f"{path} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise DirectoryMismatch(f"{path} cannot be read: {error}") from None

    def _check(self, present: dict[str, Cookie]) -> None:
        mine = self.cookie
        for directory, cookie in present.items():
            if cookie.bookie_id != mine.bookie_id:
                raise DirectoryMismatch(f"{directory} belongs to bookie {cookie.bookie_id}, this is {mine.bookie_id}")
            if cookie.instance_id != mine.instance_id:
                raise DirectoryMismatch(
                    f"{directory} belongs to cluster instance {cookie.instance_id!r}, this is {mine.instance_id!r}"
                )
            if len(cookie.journal_directories) != len(mine.journal_directories):
                raise DirectoryMismatch(
                    f"{directory} is one of a bookie with {len(cookie.journal_directories)} journal directories "
                    f"({', '.join(cookie.journal_directories)}), configured are {len(mine.journal_directories)}"
                )
            before, now = len(cookie.ledger_directories), len(mine.ledger_directories)
            if before != now and not (self._may_grow and before < now):
                raise DirectoryMismatch(
                    f"{directory} is one of a bookie with {before} ledger directories "
                    f"({', '.join(cookie.ledger_directories)}), configured are {now}"
                )
        missing = [directory for directory in self.all if directory not in present]
        known = {path for cookie in present.values() for path in cookie.ledger_directories + cookie.journal_directories}
        added = self._may_grow and known.isdisjoint(missing)
        if missing and not added and any(map(_content, present)):
            raise DirectoryMismatch(
                f"{missing[0]} has no {FILE_NAME}, but {next(iter(present))} says that it is a folder of this bookie: "
                "is a disk not mounted?"
            )
        self._check_empty(missing)

    def _check_empty(self, directories: Iterable[str]) -> None:
        """Raises DirectoryMismatch when a folder without a cookie holds files: the files do not belong to a bookie,
        since a bookie writes its cookie first."""
        for directory in directories:
            if content := _content(directory):
                raise DirectoryMismatch(f"{directory} holds files ({content[0]}) but no {FILE_NAME}")

    def _lock(self, directories: Iterable[str]) -> None:
        for directory in directories:
            fd = os.open(os.path.join(directory, LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._locks.append(fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.pread(fd, 20, 0).decode(errors="replace").strip()
                raise DirectoryInUse(directory, int(holder) if holder.isdigit() else None) from None
            # Written over before it is cut, because a full disk has no block for a file that was emptied.
            os.ftruncate(fd, os.pwrite(fd, f"{os.getpid()}\n".encode(), 0))

    def _write(self, present: dict[str, Cookie]) -> None:
        for directory in self.all:
            before = present.get(directory)
            if before == self.cookie:
                continue
            if before is not None and not set(before.ledger_directories) <= set(self.ledgers):
                log.info("%s was moved here from %s", directory, ", ".join(before.ledger_directories))
            replace_file(os.path.join(directory, FILE_NAME), self.cookie.format())
            sync_directory(os.path.dirname(directory))
