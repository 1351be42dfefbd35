"""Pages of docs/ as tests: their fenced blocks run one after the other, in one folder, as a reader would run them.

A page may hold these blocks. ```python runs in the page's session. After a line that ends with the name of a file
(`weather.py`:) it is the content of that file, and runs where `python` or `spark-submit` names it. In ```sh, `magnetar
spark JOB …` and `python` run in this process, and some plain commands in a shell; what SKIPPED names is not run. A
```text block stands straight after the block whose output it shows. Each of its lines has to appear, in that order; `…`
stands for anything, and blanks count as one. A block of another kind, a file that nothing runs and an unknown command
are errors, because what is not run does not stay true.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from magnetar.spark.jobs.main import main as run_job

BROKER_URL, WEB_URL, S3_URL = "pulsar://127.0.0.1:6650", "http://127.0.0.1:8080", "http://127.0.0.1:5000"
IN_A_SHELL = ("cat", "cp", "curl", "echo", "find", "head", "ls", "mkdir", "rm", "sort", "tail", "wc")
SKIPPED = (
    r"cd \S+",
    r"cp magnetar/docs/\S+ \.",
    r"export \S+=.*",
    r"git clone .*",
    r"jupyter notebook .*",
    r"(sudo )?apt(-get)? install .*",
    r"python3?(\.\d+)? -m venv .*",
    r"(python3? -m )?pip install .*",
    r"magnetar standalone .*&",
    r"python3? -m moto\.server .*&",
    r"spark-submit .*",
    r"kill .*",
)
"""Commands, without the folder of their program, that a test cannot run or need not run, because it has already what
they make."""
SHELL_SECONDS = 60


class BadPage(AssertionError):
    """A page cannot be followed as it stands; the text says where."""


@dataclass
class Block:
    """A fenced block. `line` is the line of its fence, from 1; `file` is the name that a python block is given."""

    kind: str
    text: str
    line: int
    file: str = ""
    prints: str = ""


def blocks_of(page: str) -> list[Block]:
    """Returns all blocks of a page, each with the output that the page promises. Raises BadPage."""
    blocks: list[Block] = []
    is_open, said, between = False, "", True
    for number, line in enumerate(page.splitlines(), start=1):
        if line.strip().startswith("```"):
            is_open = not is_open
            if is_open:
                named = re.search(r"`([\w-]+\.py)`[^`]*:$", said)
                blocks.append(Block(line.strip()[3:], "", number, named[1] if named else ""))
            elif blocks[-1].kind == "text":
                _promise(blocks, between)
            if not is_open:
                said, between = "", False
        elif is_open:
            blocks[-1].text += f"{line}\n"
        elif line.strip():
            said, between = line.strip(), between or not line.strip().endswith(":")
    if is_open:
        raise BadPage(f"line {blocks[-1].line}: the block has no end")
    for block in blocks:
        if block.kind not in ("python", "sh"):
            raise BadPage(
                f"line {block.line}: a block of kind '{block.kind}' is not run; there are python, sh and text"
            )
    return blocks


def _promise(blocks: list[Block], between: bool) -> None:
    """Gives the text block at the end of the list to the block before it. Raises BadPage when there is text between the
    two."""
    promise = blocks.pop()
    if not blocks or between:
        raise BadPage(f"line {promise.line}: a text block stands straight after the block that prints it")
    blocks[-1].prints += promise.text


def commands_of(script: str) -> Iterator[str]:
    """Yields the commands of a sh block, without comments and empty lines, each as one line. Raises BadPage."""
    command = ""
    for line in script.splitlines():
        command += line if not command else f"\n{line}"
        if command.endswith("\\"):
            command = command[:-1].rstrip() + " "
            continue
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            continue  # a quoted text goes on in the next line
        if words:
            yield re.sub(r" \n\s*", " ", command.strip())
        command = ""
    if command.strip():
        raise BadPage(f"the command has no end: {command}")


def server_settings(blocks: list[Block]) -> dict[str, str]:
    """Returns the settings that the page's line `magnetar standalone` sets by `--set`."""
    settings: dict[str, str] = {}
    for block in blocks:
        if block.kind == "sh":
            for command in commands_of(block.text):
                if "magnetar standalone" in command:
                    settings |= dict(pair.split("=", 1) for pair in re.findall(r"--set (\S+=\S+)", command))
    return settings


def check_prints(block: Block, printed: str) -> None:
    """Raises BadPage for the first promised line that was not printed."""
    rest = [" ".join(line.split()) for line in printed.splitlines()]
    for promised in block.prints.splitlines():
        wanted = " ".join(promised.split())
        if not wanted:
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("…")))
        at = next((index for index, line in enumerate(rest) if pattern.search(line)), None)
        if at is None:
            raise BadPage(
                f"line {block.line}: it does not print '{wanted}' (any more, or at this place), but\n{printed}"
            )
        rest = rest[at + 1 :]


@dataclass
class Reader:
    """Follows a page in the working folder. `urls` maps the URLs in the text to those of the test's server."""

    urls: dict[str, str]
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    files: dict[str, str] = field(default_factory=dict)
    unused: set[str] = field(default_factory=set)

    def follow(self, blocks: list[Block]) -> None:
        """Runs all blocks. Raises BadPage, or what a block raises."""
        for block in blocks:
            printed = io.StringIO()
            try:
                with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                    self._run(block)
            except (Exception, SystemExit) as error:
                raise BadPage(f"line {block.line}: {error!r}\n{printed.getvalue()}") from error
            check_prints(block, printed.getvalue())
        if self.unused:
            raise BadPage(f"nothing on the page runs {', '.join(sorted(self.unused))}")

    def _run(self, block: Block) -> None:
        text = self._here(block.text)
        if block.kind == "sh":
            for command in commands_of(text):
                self._command(command)
        elif block.file:
            Path(block.file).write_text(text)
            self.unused.add(block.file)
        else:
            exec(compile(text, f"line {block.line}", "exec"), self.names)

    def _here(self, text: str) -> str:
        for documented, own in self.urls.items():
            text = text.replace(documented, own)
        return re.sub(r"\bmagnetar\.spark(?= import|\.)", "spark", text)

    def _command(self, command: str) -> None:
        words = shlex.split(command, comments=True)
        program = words[0].rpartition("/")[2]
        plain = f"{program}{command[len(words[0]) :]}"
        if program == "magnetar" and words[1:2] == ["spark"]:
            self._job(words[2:])
        elif program == "spark-submit" and (ours := self.unused & set(words)):
            self._python(["spark-submit", *ours])
        elif any(re.fullmatch(pattern, plain, re.DOTALL) for pattern in SKIPPED):
            return
        elif program in ("python", "python3") and len(words) > 1:
            self._python(words)
        elif program in IN_A_SHELL:
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=SHELL_SECONDS)
            print(done.stdout, done.stderr)
            if done.returncode:
                raise BadPage(f"exit code {done.returncode}: {command}")
        else:
            raise BadPage(f"tests/spark/pages.py does not know how to run: {command}")

    def _job(self, words: list[str]) -> None:
        """Runs a job. A command that ends with `|| true` shows how the job fails. Raises BadPage for any other
        failure."""
        fails = words[-2:] == ["||", "true"]
        try:
            code = run_job(words[:-2] if fails else words)
        except SystemExit as ended:  # argparse ends so after --help
            code = int(ended.code or 0)
        if bool(code) != fails:
            raise BadPage(f"exit code {code}: magnetar spark {shlex.join(words)}")

    def _python(self, words: list[str]) -> None:
        """Runs a program of the page, or one line of Python, in this process."""
        if words[1] == "-c":
            name, source = "-c", words[2]
        else:
            name, source = words[1], Path(words[1]).read_text()
            self.unused.discard(name)
        given, sys.argv = sys.argv, words[1:]
        try:
            exec(compile(source, name, "exec"), {"__name__": "__main__"})
        finally:
            sys.argv = given


@contextlib.contextmanager
def working_in(folder: Path, session: Any) -> Iterator[None]:
    """Makes the folder the working directory, for Java too, and keeps the last line of a page's program from stopping
    the session."""
    before = Path.cwd()
    stop: Callable[..., None] = type(session).stop

    def move(to: Path) -> None:
        os.chdir(to)
        java = session._jvm
        java.java.lang.System.setProperty("user.dir", str(to))
        local = java.org.apache.hadoop.fs.FileSystem.getLocal(session._jsc.hadoopConfiguration())
        local.setWorkingDirectory(java.org.apache.hadoop.fs.Path(str(to)))

    move(folder)
    type(session).stop = lambda self: None
    try:
        yield
    finally:
        type(session).stop = stop
        move(before)
