"""The commands of `functions` that send or fetch files and state."""

import json
import os
import time

from magnetar.server.tools.admin.admin_errors import CommandError, UsageError
from magnetar.server.tools.admin.component_rows import FUNCTIONS, place_of, settle_place, show_gson
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.admin.multipart import multipart, read_file
from magnetar.server.tools.connection.connection_errors import AdminCallError


def _either(invocation: Invocation, name: str, old_name: str) -> str | None:
    value = invocation[name] if invocation[name] is not None else invocation[old_name]
    return None if value is None else str(value)


def query_state(invocation: Invocation) -> None:
    settle_place(invocation, FUNCTIONS)
    if not invocation["key"]:
        raise UsageError("State key needs to be specified")
    while True:
        try:
            show_gson(invocation, invocation.get(place_of(FUNCTIONS) + "/state/{key}"))
        except AdminCallError as error:
            if error.status != 404 or not invocation["watch"]:
                raise
        if not invocation["watch"]:
            return
        time.sleep(1)


def put_state(invocation: Invocation) -> None:
    settle_place(invocation, FUNCTIONS)
    try:
        state = json.loads(invocation["state"])
        invocation.values["key"] = state["key"]
    except (ValueError, KeyError, TypeError):
        raise UsageError("--state must be JSON with a key") from None
    body, media_type = multipart({"state": json.dumps(state)})
    path = invocation.filled(place_of(FUNCTIONS) + "/state/{key}")
    invocation.http.call("POST", path, (), body, media_type)


def trigger(invocation: Invocation) -> None:
    settle_place(invocation, FUNCTIONS)
    value = _either(invocation, "trigger-value", "triggerValue")
    file = _either(invocation, "trigger-file", "triggerFile")
    if value is None and file is None:
        raise UsageError("Either a trigger value or a trigger filepath needs to be specified")
    fields = {} if value is None else {"data": value}
    if invocation["topic"] is not None:
        fields["topic"] = invocation["topic"]
    body, media_type = multipart(fields, "dataStream", None if file is None else (file, read_file(file)))
    answer = invocation.http.call("POST", invocation.filled(place_of(FUNCTIONS) + "/trigger"), (), body, media_type)
    invocation.say(answer.text())


def upload(invocation: Invocation) -> None:
    file = _either(invocation, "source-file", "sourceFile")
    if not file:
        raise UsageError("--source-file needs to be specified")
    body, media_type = multipart({"path": invocation["path"]}, "data", (file, read_file(file)))
    invocation.http.call("POST", "/admin/v3/functions/upload", (), body, media_type)
    invocation.say("Uploaded successfully")


def download(invocation: Invocation) -> None:
    target = _either(invocation, "destination-file", "destinationFile")
    if not target:
        raise UsageError("--destination-file needs to be specified")
    if invocation["path"] is not None:
        answer = invocation.http.get("/admin/v3/functions/download", [("path", invocation["path"])])
    else:
        settle_place(invocation, FUNCTIONS)
        query = [("transform-function", "true" if invocation["transform-function"] else "false")]
        answer = invocation.http.get(invocation.filled(place_of(FUNCTIONS) + "/download"), query)
    write_file(target, answer.body)
    invocation.say("Downloaded successfully")


def write_file(path: str, content: bytes) -> None:
    """Raises CommandError."""
    try:
        with open(path, "wb") as file:
            file.write(content)
    except OSError as error:
        raise CommandError(f"{path}: {os.strerror(error.errno or 0)}") from None
