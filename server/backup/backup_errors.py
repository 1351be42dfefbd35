"""What goes wrong with a backup. The commands show the text of these errors to the operator."""


class BackupError(Exception):
    """The backup or the restore cannot go on. The text is one sentence that names the file or the server."""


class StreamError(BackupError):
    """The bytes of a backup's stream, or of a request for one, are not what the other side sends."""


class DamageError(BackupError):
    """A file of a backup is not as it was written. `offset` is where the damage was noticed: the damage begins there,
    or in the block that begins there."""

    def __init__(self, file: str, offset: int, finding: str) -> None:
        super().__init__(f"{file} is damaged at offset {offset}: {finding}")
        self.file = file
        self.offset = offset
