"""The rows of `packages`. Magnetar has no packages service; Apache's brokers have one when it is configured."""

import json
import re
from typing import Any

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.command_table import (
    LINES,
    NAMESPACE_ARGUMENT,
    PAIRS,
    VALUE,
    Argument,
    Call,
    Command,
    Option,
)
from magnetar.server.tools.admin.invocation import Invocation

_PACKAGE = Argument("package", "type://tenant/namespace/name@version; the types are function, source, sink")
_DESCRIPTION = Option("-d --description", "what it is", required=True)
_CONTACT = Option("-c --contact", "whom to ask about it")
_PROPERTIES = Option("-P --properties", "-P a=b -P c=d", PAIRS)
_NAME = re.compile(r"(function|source|sink)://([^/@]+)/([^/@]+)/([^/@]+)(?:@([^/@]+))?")
_BASE = "/admin/v3/packages"
_EXAMPLE = "function://my-tenant/my-namespace/my-function@v1"


def _path(invocation: Invocation, *, version: bool = True) -> str:
    match = _NAME.fullmatch(invocation["package"])
    if match is None:
        raise UsageError(f"Invalid package name '{invocation['package']}'")
    parts = list(match.groups()[:4])
    if version:
        parts.append(match[5] or "latest")
    return f"{_BASE}/{'/'.join(parts)}"


def _metadata(invocation: Invocation) -> dict[str, Any]:
    return {
        "description": invocation["description"],
        "contact": invocation["contact"],
        "properties": invocation["properties"] or {},
    }


def _get(invocation: Invocation) -> None:
    invocation.show(invocation.get(_path(invocation) + "/metadata"))


def _update(invocation: Invocation) -> None:
    invocation.call(Call("PUT", _path(invocation) + "/metadata", body=lambda _: _metadata(invocation)))
    invocation.say(f"The metadata of the package '{invocation['package']}' updated successfully")


def _upload(invocation: Invocation) -> None:
    from magnetar.server.tools.admin.multipart import multipart, read_file

    path = _path(invocation)
    file = (invocation["path"], read_file(invocation["path"]))
    body, media_type = multipart({"metadata": json.dumps(_metadata(invocation))}, "file", file)
    invocation.http.call("POST", path, (), body, media_type)
    invocation.say(f"The package '{invocation['package']}' uploaded from path '{invocation['path']}' successfully")


def _download(invocation: Invocation) -> None:
    from magnetar.server.tools.admin.function_steps import write_file

    write_file(invocation["path"], invocation.http.get(_path(invocation)).body)
    invocation.say(f"The package '{invocation['package']}' downloaded to path '{invocation['path']}' successfully")


def _list_versions(invocation: Invocation) -> None:
    invocation.show(invocation.get(_path(invocation, version=False)))


def _delete(invocation: Invocation) -> None:
    invocation.call(Call("DELETE", _path(invocation)))
    invocation.say(f"The package '{invocation['package']}' deleted successfully")


COMMANDS = (
    Command("get-metadata", "Shows what a package is.", _get, (_PACKAGE,), output=VALUE, examples=(_EXAMPLE,)),
    Command(
        "update-metadata",
        "Changes what is said about a package.",
        _update,
        (_PACKAGE,),
        (_DESCRIPTION, _CONTACT, _PROPERTIES),
        VALUE,
        examples=(f"{_EXAMPLE} -d 'counts words'",),
    ),
    Command(
        "upload",
        "Uploads a package.",
        _upload,
        (_PACKAGE,),
        (
            _DESCRIPTION._replace(names="--description"),
            _CONTACT._replace(names="--contact"),
            _PROPERTIES,
            Option("--path", "the file", required=True),
        ),
        VALUE,
        examples=(f"{_EXAMPLE} --description 'counts words' --path my.jar",),
    ),
    Command(
        "download",
        "Downloads a package.",
        _download,
        (_PACKAGE,),
        (Option("--path", "where to", required=True),),
        VALUE,
        examples=(f"{_EXAMPLE} --path my.jar",),
    ),
    Command(
        "list",
        "Lists the packages of a namespace.",
        Call("GET", f"{_BASE}/{{type}}/{{namespace.text}}"),
        (NAMESPACE_ARGUMENT,),
        (Option("--type", "function, source or sink", required=True),),
        LINES,
        examples=("my-tenant/my-namespace --type function",),
    ),
    Command(
        "list-versions",
        "Lists the versions of a package.",
        _list_versions,
        (_PACKAGE,),
        output=LINES,
        examples=("function://my-tenant/my-namespace/my-function",),
    ),
    Command("delete", "Deletes a package.", _delete, (_PACKAGE,), output=VALUE, examples=(_EXAMPLE,)),
)
