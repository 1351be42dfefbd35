"""A program of this folder that uses Apache's Java client and is told what to do, line by line."""

import subprocess
from pathlib import Path

from compat_tests.java.client_jars import JAVA, TOOLS
from compat_tests.maven_jars import class_path

ANSWER = "<<< "


class JavaClient:
    """A running program. It takes a line of words at a time, and prints one line for each as its answer."""

    def __init__(self, program: str, service_url: str, folder: Path) -> None:
        """Starts a program, such as `Following.java`, as a client of that service."""
        source, jars = Path(__file__).with_name(program), class_path("pulsar-tools", TOOLS)
        self._errors = (folder / "errors").open("w+")
        self._process = subprocess.Popen(
            [*JAVA, "-cp", jars, str(source), service_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def answer(self) -> str:
        """Returns the next answer."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                return line.removeprefix(ANSWER).strip()
        self._errors.seek(0)
        raise AssertionError(f"the client ended: {self._errors.read()[-2_000:]}")

    def ask(self, words: str) -> str:
        """Tells the program what to do, and returns its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._errors.close()
