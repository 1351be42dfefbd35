"""What a test needs and does not find: it skips with the reason on a user's machine, and fails where CI=true."""

import os
from typing import NoReturn

import pytest


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
