"""Which libraries travel with the data source, and when a machine's own ones are used instead."""

import re
from collections.abc import Mapping

LIBRARIES: Mapping[str, tuple[str, str]] = {
    "cramjam": ("2.9", ""),
    "fastavro": ("1.9", ""),
    "google-crc32c": ("1.6", ""),
    "orjson": ("3.10", ""),
    "protobuf": ("6.31", "8"),
}
"""The libraries that the data source needs and Spark does not: the lowest version, and the version that is too new, or
an empty text. They are the bounds of pyproject.toml. Spark itself needs numpy, pandas and pyarrow for any data source
in Python, so these three are on every machine already."""


def fits(version: str | None, bounds: tuple[str, str]) -> bool:
    """Returns whether an installed version is one that the data source works with. None means that the library is not
    installed."""
    if version is None:
        return False
    lowest, too_new = bounds
    return _numbers(version) >= _numbers(lowest) and (not too_new or _numbers(version) < _numbers(too_new))


def _numbers(version: str) -> tuple[int, ...]:
    """Returns the release numbers of a version, without marks of early versions: (7, 0) for `7.0rc1`."""
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in release[0].split(".")) if release else ()
