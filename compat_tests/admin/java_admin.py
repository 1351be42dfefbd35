"""Runs Apache's admin tool and its client library from their jars."""

import json
import subprocess
from pathlib import Path
from typing import Any

from compat_tests.harness import Server
from compat_tests.maven_jars import class_path

TOOLS = (
    ("org.apache.pulsar", "pulsar-client-tools", "4.0.6"),
    # Maven would take an older version, without which the client cannot read a load report.
    ("com.fasterxml.jackson.core", "jackson-core", "2.17.2"),
)
JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
VERDICT = "<<< "
NOISE = ("WARN", "INFO", "DEBUG", "ERROR")


def command(source: str, *arguments: str) -> list[str]:
    """Returns the command that runs a Java source file of this folder with the tool's jars."""
    return [*JAVA, "-cp", class_path("pulsar-admin", TOOLS), str(Path(__file__).with_name(source)), *arguments]


class PulsarAdmin:
    """One JVM that runs the admin tool's commands one after the other."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._errors = (folder / "errors").open("w+")
        self._errors_shown = 0
        self._process = subprocess.Popen(
            command("Admin.java", server.web_url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def run(self, *words: str) -> tuple[bool, str]:
        """Runs a command and returns (whether it succeeded, what it printed)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        said: list[str] = []
        for line in self._process.stdout:
            if line.startswith(VERDICT):
                return line.strip() == f"{VERDICT}ok", "\n".join(said).strip()
            if not any(f" {kind} " in line for kind in NOISE):
                said.append(line.rstrip("\n"))
        raise AssertionError(f"the tool ended: {self.errors()}")

    def __call__(self, *words: str) -> str:
        """Runs a command that must succeed, and returns what it printed."""
        worked, said = self.run(*words)
        assert worked, f"{words}: {said} {self.errors()}"
        return said

    def json(self, *words: str) -> Any:
        return json.loads(self(*words))

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2_000:]

    def new_errors(self) -> str:
        """Returns what was written to stderr since the last call of this."""
        self._errors.seek(self._errors_shown)
        text = self._errors.read()
        self._errors_shown = self._errors.tell()
        return text

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._errors.close()
