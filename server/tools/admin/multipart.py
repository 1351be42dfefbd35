"""Bodies of the media type multipart/form-data, by which files are sent to a functions worker."""

import os
from collections.abc import Mapping

from magnetar.server.tools.admin.admin_errors import CommandError

FILE_BYTES_MAX = 1 << 30
"""A longer file is refused: it is held in memory while it is sent."""


def read_file(path: str) -> bytes:
    """Raises CommandError."""
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CommandError(f"{path}: {os.strerror(error.errno or 0)}") from None
    if len(content) > FILE_BYTES_MAX:
        raise CommandError(f"{path} is longer than {FILE_BYTES_MAX >> 20} MB")
    return content


def multipart(
    fields: Mapping[str, str], file_field: str = "", file: tuple[str, bytes] | None = None
) -> tuple[bytes, str]:
    """Returns the body and its media type. A file is its name and its content."""
    boundary = os.urandom(16).hex()
    parts = []
    for name, text in fields.items():
        kind = "Content-Type: application/json\r\n" if text[:1] in "{[" else ""
        parts.append(f'Content-Disposition: form-data; name="{name}"\r\n{kind}\r\n{text}\r\n'.encode())
    if file is not None:
        name = os.path.basename(file[0]).replace('"', "'")
        head = f'Content-Disposition: form-data; name="{file_field}"; filename="{name}"\r\n'
        parts.append(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + file[1] + b"\r\n")
    opening = f"--{boundary}\r\n".encode()
    body = b"".join(opening + part for part in parts) + f"--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"
