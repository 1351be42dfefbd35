"""What the tests of `magnetar.testing` share: pytest in a process of its own, the official client."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pulsar

SECONDS_MAX = 120


def run_pytest(folder: Path, *arguments: str, plugins: tuple[str, ...] = ()) -> str:
    """Runs pytest with the plugin on the tests of a folder, without any other plugin that is installed. Returns what it
    printed, with the exit code in the last line."""
    names = [word for name in ("magnetar.testing.pytest_plugin", *plugins) for word in ("-p", name)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *names, *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    return f"{done.stdout}{done.stderr}\nexit code {done.returncode}"


@contextmanager
def client_of(url: str, **options: object) -> Iterator[pulsar.Client]:
    """Yields an official client, and closes it whether or not its server is alive."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)
    client = pulsar.Client(url, **{"logger": logger, "operation_timeout_seconds": 60, **options})
    try:
        yield client
    finally:
        with suppress(pulsar.PulsarException):
            client.close()
