"""The errors for which a bookie does not start, or stops working. For answers to peers there is `BookieError` of
pulsar_proto.wire.bookie_wire.

Operators read these errors, so each error names the file, the offset if it matters, and the remedy."""

import errno

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_no_room(error: OSError) -> bool:
    """Returns whether an error of a write goes away when somebody frees space. Any other error of a write or sync is
    fatal."""
    return error.errno in _NO_ROOM


class BookieStartError(Exception):
    """The bookie refuses to start. If `Bookie.read` raises the error, nothing on disk has changed."""


class DirectoryMismatch(BookieStartError):
    """A folder belongs to another bookie, or one of this bookie's folders is missing (BookKeeper's
    InvalidCookieException)."""


class DirectoryInUse(BookieStartError):
    """Another process has the folder open."""

    def __init__(self, directory: str, pid: int | None) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{directory} is in use by {holder}")
        self.directory = directory
        self.pid = pid


class Skippable(BookieStartError):
    """The bookie refuses to start because acknowledged data may be missing. With `skipDamagedJournal` it starts without
    that data.

    `finding` is the message without ADVICE, because a bookie of a cluster gives the operator other advice.
    """

    ADVICE = (
        "Restore the file from a copy, or start once with skipDamagedJournal=true to keep what can still be read "
        "and give up the damaged part."
    )

    def __init__(self, finding: str) -> None:
        super().__init__(f"{finding}. {self.ADVICE}")
        self.finding = finding


class JournalDamaged(Skippable):
    """A journal is damaged. Acknowledged entries may stand behind the damage, so the journal is not cut there."""

    def __init__(self, file: str, offset: int, what: str) -> None:
        super().__init__(f"journal {file} is damaged at offset {offset}: {what}")
        self.file = file
        self.offset = offset
        self.what = what


class JournalMissing(Skippable):
    """A journal file that must exist is missing."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"journal {file} is missing: {what}")
        self.file = file


class MarkDamaged(Skippable):
    """The mark, which says from where the journals are replayed, is unreadable or missing."""


class IndexDamaged(BookieStartError):
    """The entry index cannot be opened, or lacks records that it had when the mark was written."""


class EntryLogDamaged(Exception):
    """A stored block does not read back as it was written."""

    def __init__(self, file: str, offset: int, what: str) -> None:
        super().__init__(f"entry log {file} is damaged at offset {offset}: {what}")
        self.file = file
        self.offset = offset
        self.what = what


class EntryLogGone(Exception):
    """An entry log was deleted or compacted after a reader looked an entry up in the index. The reader has to repeat
    the look-up."""


class IndexFailure(Exception):
    """RocksDB refused a read or a write. The message is RocksDB's own and names the file."""
