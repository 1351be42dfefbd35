"""How many random examples and histories a test goes through: all of them, or fewer in `make check`."""

import os

ARE_FEW = os.environ.get("MAGNETAR_TEST_ROUNDS") == "few"
"""`make check` sets this, because it runs after every change. `make test` and CI go through all rounds."""


def rounds(count: int) -> int:
    """Returns `count`, or a quarter of it while rounds are few."""
    return max(1, count // 4) if ARE_FEW else count
