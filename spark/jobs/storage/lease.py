"""A lock on a folder of an object store, where no operating system releases the lock of a process that died.

The run that holds the lock replaces the lock's file every few seconds, as a sign of life. A run that finds the file
waits and looks whether it changes: if so, the folder is in use; if not, its owner is dead and the run takes the file
over. No clocks are compared. A run that was only slow may lose its lock in this way: it learns so at its next sign of
life, and does not write any more. The lock keeps two runs from working against each other; that each message is written
once does not depend on it, because records of batches and tables' commits are only ever created, and never replaced.
"""

import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from magnetar.spark.jobs.storage.object_store import ObjectStore, Version
from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import LOCK_FILE, FolderInUse, StorageFault

SIGN_SECONDS = 4.0
"""The time between two signs of life."""
WATCH_SECONDS = 15.0
"""How long a run watches a lock that it has found: some signs of life, because one of them may be late."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Lease:
    """The lock of one folder, held by this process until `close`."""

    def __init__(self, place: Place, tell: Callable[[str], object]) -> None:
        """Takes the lock, and calls `tell` with a sentence if it has to wait for that. Raises FolderInUse when another
        run holds the lock."""
        self._store = ObjectStore(place.url, place.options)
        self._url = place.url
        self._run = uuid.uuid4().hex
        self._signs = 0
        self._is_lost = False
        self._ended = threading.Event()
        self._version = self._taken(tell)
        self._thread = threading.Thread(target=self._sign, daemon=True, name="lease")
        self._thread.start()

    def _content(self) -> bytes:
        self._signs += 1
        return json.dumps({"run": self._run, "sign": self._signs, "host": _machine(), "pid": os.getpid()}).encode()

    def _taken(self, tell: Callable[[str], object]) -> Version:
        if self._store.create(LOCK_FILE, self._content()) and (found := self._store.read_version(LOCK_FILE)):
            return found[1]
        found = self._store.read_version(LOCK_FILE)
        if found is not None and not _is_dead(found[0]):
            tell(f"{self._url}: another run was here; watching for {WATCH_SECONDS:g} s whether it still works")
            found = self._watched(found)
        version = None if found is None else self._store.replace(LOCK_FILE, self._content(), found[1])
        if version is None:
            raise self._in_use()
        return version

    def _watched(self, first: tuple[bytes, Version]) -> tuple[bytes, Version]:
        """Watches the lock of another run. Returns when there was no sign of life; raises FolderInUse when there
        was."""
        deadline = time.monotonic() + WATCH_SECONDS
        while time.monotonic() < deadline:
            time.sleep(min(SIGN_SECONDS / 4, WATCH_SECONDS))
            now = self._store.read_version(LOCK_FILE)
            if now is None or now[0] != first[0]:
                raise self._in_use()
        return first

    def _in_use(self) -> FolderInUse:
        return FolderInUse(f"another run works in {self._url}: wait for its end, or take another folder")

    def _sign(self) -> None:
        """Replaces the file until the run ends. A store that does not answer is tried again, because the lock is not
        lost as long as nobody takes it over."""
        while not self._ended.wait(SIGN_SECONDS):
            try:
                version = self._store.replace(LOCK_FILE, self._content(), self._version)
            except StorageFault:
                continue
            if version is None:
                self._is_lost = True
                return
            self._version = version

    def check(self) -> None:
        """Raises FolderInUse when another run has taken the lock over."""
        if self._is_lost:
            raise FolderInUse(
                f"another run has taken over {self._url}, because this one gave no sign of life for a while"
            )

    def close(self) -> None:
        """Releases the lock, unless another run has it now."""
        self._ended.set()
        self._thread.join()
        if not self._is_lost:
            self._store.delete(LOCK_FILE)


def _machine() -> str:
    """Returns a text that no other machine has, and that changes when this one starts again."""
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
    return f"{platform.node()} {boot}"


def _is_dead(content: bytes) -> bool:
    """Returns whether the owner of a lock was a process of this machine that is gone."""
    owner = json.loads(content)
    if owner["host"] != _machine() or owner["pid"] == os.getpid():
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
