"""Runs `magnetar COMMAND` for the tests, with the addresses of a server in the environment."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compat_tests.harness import Server
from compat_tests.products import interpreter

TIMEOUT_SECONDS = 90.0


def environment(server: Server | None, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment of a command: the server's addresses, and no settings of whoever runs the tests."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MAGNETAR_", "PULSAR_"))}
    variables["XDG_CONFIG_HOME"] = "/absent"
    if server is not None:
        variables["MAGNETAR_SERVICE_URL"] = server.broker_url
        variables["MAGNETAR_ADMIN_URL"] = server.web_url
    return {**variables, **(more or {})}


def start(
    server: Server | None, *words: str, more: Mapping[str, str] | None = None, **options: Any
) -> "subprocess.Popen[bytes]":
    """Starts a command with pipes for its input and its outputs."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([*interpreter(), "-m", "magnetar", *words], env=environment(server, more), **pipes)


def run(
    server: Server | None, *words: str, input: bytes = b"", more: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """Runs a command to its end."""
    with start(server, *words, more=more) as process:
        try:
            output, errors = process.communicate(input, TIMEOUT_SECONDS)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def done(server: Server, *words: str, input: bytes = b"", more: Mapping[str, str] | None = None) -> bytes:
    """Runs a command that has to succeed without a word on stderr, and returns its output."""
    result = run(server, *words, input=input, more=more)
    assert (result.returncode, result.stderr.decode()) == (0, "")
    return result.stdout


def refused(result: "subprocess.CompletedProcess[bytes]", code: int = 1) -> str:
    """Returns the one sentence of a command that failed with this exit code and printed nothing else."""
    assert (result.returncode, result.stdout) == (code, b""), result.stderr.decode()
    (line,) = result.stderr.decode().splitlines()
    return line


def without_client(folder: Path) -> dict[str, str]:
    """Returns the environment variables with which a command does not find the official client."""
    package = folder / "absent" / "pulsar"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'pulsar'\", name='pulsar')\n")
    return {"PYTHONPATH": str(package.parent)}


def lines(count: int, prefix: str = "line") -> list[bytes]:
    return [f"{prefix} {number}".encode() for number in range(count)]


def joined(parts: Sequence[bytes]) -> bytes:
    """Returns the parts as lines."""
    return b"".join(part + b"\n" for part in parts)
