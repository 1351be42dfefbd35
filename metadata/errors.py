"""Errors of every metadata store. Names follow ZooKeeper's KeeperException codes."""


class MetadataError(Exception):
    """Base of all; `path` names the record concerned."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class NoNodeError(MetadataError):
    """The record (or, on create, its parent) does not exist."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "no such record")


class NodeExistsError(MetadataError):
    """create() found a record there already."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "record exists already")


class BadVersionError(MetadataError):
    """The record's version is not the expected one: somebody else wrote it."""

    def __init__(self, path: str, expected: int, actual: int) -> None:
        super().__init__(path, f"expected version {expected}, found {actual}")
        self.expected = expected
        self.actual = actual


class NotEmptyError(MetadataError):
    """delete() of a record that has children."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "record has children")


class EphemeralParentError(MetadataError):
    """create() below an ephemeral record, which ZooKeeper does not allow."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "parent is ephemeral")


class StoreClosedError(MetadataError):
    """The store was closed, its file failed, or its session is lost for good."""
