"""The errors of locks."""

from magnetar.metadata.errors import MetadataError


class LockBusyError(MetadataError):
    """The lock is held by somebody else, or its record is not a lock (LockBusyException)."""

    def __init__(self, path: str, holder: bytes | None = None) -> None:
        """`holder` is the value of the record that was found, or None when it kept changing hands."""
        super().__init__(path, "is already locked by somebody else")
        self.holder = holder


class LockNotHeldError(MetadataError):
    """The lock was lost or released, so its value cannot be changed."""

    def __init__(self, path: str, state: str) -> None:
        super().__init__(path, f"the lock is not held, it is {state}")
