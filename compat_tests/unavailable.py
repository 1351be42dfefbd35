"""Ends a test that lacks something: it skips with the reason on a user's machine, and fails when CI=true."""

import os
from typing import NoReturn

import pytest


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
