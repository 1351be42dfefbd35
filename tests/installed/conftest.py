"""Builds one wheel for all tests in this folder."""

from pathlib import Path

import pytest

from tests.installed.base_install import build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))
