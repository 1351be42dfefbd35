"""Java programs that are told what to do, line by line: those of this folder, which use Apache's Java client."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from compat_tests.java.client_jars import JAVA, TOOLS
from compat_tests.maven_jars import class_path

ANSWER = "<<< "
END_SECONDS = 60


class JavaProgram:
    """A running program. It takes a line of words at a time, and prints one line for each as its answer."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        """Starts the program. What it logs goes to the file `errors` of the folder."""
        self._errors = (folder / "errors").open("w+")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    def answer(self) -> str:
        """Returns the next answer."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                return line.removeprefix(ANSWER).strip()
        self._errors.seek(0)
        raise AssertionError(f"the program ended: {self._errors.read()[-2_000:]}")

    def ask(self, words: str) -> str:
        """Tells the program what to do, and returns its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """Ends the program by the end of its input, or by SIGKILL when it does not end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._errors.close()


class JavaClient(JavaProgram):
    """A program of this folder, such as `Following.java`, as a client of a service. `jars` is the class path of the
    Java client that it uses; without it that of Apache's tools."""

    def __init__(self, program: str, service_url: str, folder: Path, jars: str = "") -> None:
        source = Path(__file__).with_name(program)
        super().__init__([*JAVA, "-cp", jars or class_path("pulsar-tools", TOOLS), str(source), service_url], folder)
