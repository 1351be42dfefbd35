"""Runs one verb of `magnetar leaks` on a standalone server that runs, by its calls."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from magnetar.server.programs.bk.verb_output import ToolOutput
from magnetar.server.programs.bk.verb_running import Tool, ToolError
from magnetar.server.tools.connection.connection_errors import AdminCallError
from magnetar.server.tools.connection.http_client import AdminHttp, path_of
from magnetar.server.tools.connection.settings import load_settings

LEAKS = ("admin", "v2", "brokers", "leaks")
CLEAN, FOUND = 0, 1
LINE_BYTES_MAX = 256 << 20


def run_remotely(arguments: argparse.Namespace, flags: dict[str, str]) -> int:
    """Runs the verb that the command line names and returns the exit code. Raises ToolError, AdminCallError,
    ConnectionSettingsError."""
    http = AdminHttp(load_settings(flags, os.environ))
    method, path, query = _call_of(arguments)
    if arguments.verb in ("remove", "restore"):
        does = "Delete" if arguments.verb == "remove" else "Put back"
        Tool.confirm(f"{does} what the server's backup {arguments.folder} holds?", force=arguments.force)
    out = ToolOutput(as_json=arguments.output == "json")
    with http.stream(path, None, method=method, query=query) as parts:
        for line in _lines(parts):
            if "end" in line:
                return _end(line["end"])
            if "warning" in line:
                print(line["warning"], file=sys.stderr)
            else:
                out.result(line["result"], line["text"])
    raise AdminCallError("the server's answer broke off; find tells what there is now")


def _call_of(arguments: argparse.Namespace) -> tuple[str, str, list[tuple[str, str]]]:
    """Returns the method, the path and the query of the call."""
    grace = ("graceHours", str(arguments.grace_hours))
    match arguments.verb:
        case "find":
            return "GET", path_of(*LEAKS), [grace, ("fromBookies", _flag(arguments.from_bookies))]
        case "explain":
            return "GET", path_of(*LEAKS, "explanation"), [grace, ("subject", arguments.subject)]
        case "backup":
            return (
                "POST",
                path_of(*LEAKS, "backups", str(arguments.folder)),
                [grace, ("entries", _flag(arguments.entries))],
            )
        case "remove":
            wait = ("secondLookHours", str(arguments.second_look_hours))
            return "POST", path_of(*LEAKS, "backups", str(arguments.folder), "removal"), [grace, wait]
        case _:
            return "POST", path_of(*LEAKS, "backups", str(arguments.folder), "restoration"), []


def _flag(given: bool) -> str:
    return "true" if given else "false"


def _lines(parts: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yields the JSON objects of the answer's lines. Raises AdminCallError for anything else."""
    left = b""
    for part in parts:
        *whole, left = (left + part).split(b"\n")
        for text in whole:
            try:
                line = json.loads(text)
            except ValueError:
                line = None
            if not isinstance(line, dict) or not line.keys() & {"end", "warning", "result"}:
                raise AdminCallError("the server's answer was not understood: is it a Magnetar server?")
            yield line
        if len(left) > LINE_BYTES_MAX:
            raise AdminCallError(f"the server sent a line of more than {LINE_BYTES_MAX >> 20} MB")


def _end(end: dict[str, Any]) -> int:
    if error := end.get("error"):
        raise ToolError(str(error))
    return FOUND if end.get("found") else CLEAN
