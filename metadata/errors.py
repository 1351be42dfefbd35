"""The errors of all metadata stores. An error for which ZooKeeper's KeeperException.Code has a code is named after that
code."""


class MetadataError(Exception):
    """The base class of all errors here. `path` names the record that the error is about, or the store's file."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class NoNodeError(MetadataError):
    """The record does not exist. create() raises this error when the parent does not exist."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "no such record")


class NodeExistsError(MetadataError):
    """create() was called for a path that has a record already."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "record exists already")


class BadVersionError(MetadataError):
    """The record's version is not the expected one, because another writer has changed the record."""

    def __init__(self, path: str, expected: int, actual: int) -> None:
        super().__init__(path, f"expected version {expected}, found {actual}")
        self.expected = expected
        self.actual = actual


class NotEmptyError(MetadataError):
    """delete() was called for a record that has children."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "record has children")


class EphemeralParentError(MetadataError):
    """create() was called for a record below an ephemeral one, which ZooKeeper does not allow."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "parent is ephemeral")


class StoreClosedError(MetadataError):
    """The store was closed, its file failed, or its session is lost for good."""


class StoreWriteError(MetadataError):
    """The change was refused or could not be made durable (full disk, quota, ACL), and has not happened.

    Reads go on, and a later write may succeed.
    """


class StoreUnavailableError(MetadataError):
    """A read had no answer within its time, because no server is reachable. A later read may succeed."""


class OutcomeUnknownError(MetadataError):
    """The answer to a change was lost, and the records do not tell whether the change happened.

    The store does not repeat the change. The caller has to read the records and to decide.
    """


class StoreOverloadedError(MetadataError):
    """The store has too many requests waiting, and this request was not taken."""


class StoreFileError(MetadataError):
    """The store cannot use its file. If reading the file raises this error, nothing in the file was changed.

    `path` is the path of the file, not of a record; `reason` is the message without the path.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.reason = reason


class StoreLockedError(StoreFileError):
    """Another process, or another store of this process, has the file open."""


class StoreForeignError(StoreFileError):
    """The file is not a metadata store of this project, or it has a version that this code does not know."""


class StoreDamagedError(StoreFileError):
    """The file is damaged: its content is not what was written."""


class StoreMismatchError(StoreFileError):
    """The file is sound, but it is older or newer than the data that it describes, or belongs to other data."""
