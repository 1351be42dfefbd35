"""Runs `magnetar leaks` in this process and keeps what it prints."""

import contextlib
import io
import json
from typing import Any, NamedTuple

from magnetar.server.commands.main import main


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def row(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def call(*words: str) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(["leaks", *words])
        except SystemExit as exit:
            code = int(exit.code or 0)
    return Done(code, out.getvalue(), err.getvalue())
