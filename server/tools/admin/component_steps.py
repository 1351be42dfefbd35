"""The commands that create and change functions, sources and sinks: a configuration and a file go to the worker."""

import json
import os
from typing import Any
from urllib.parse import quote

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.component_config_rules import (
    FUNCTION_DEFAULTS,
    FUNCTION_FIELDS,
    SINK_DEFAULTS,
    SINK_FIELDS,
    SOURCE_FIELDS,
    component_config,
    infer_place,
    with_new_names,
)
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.admin.multipart import multipart, read_file

CONFIG_FILE_BYTES_MAX = 1 << 20
BUILT_IN = "builtin://"
_URLS = ("http://", "https://", "file://", "function://", "sink://", "source://")
_CODE = {"jar": "jar file", "py": "python file", "go": "go executable binary"}


def send_function(invocation: Invocation, *, update: bool) -> None:
    values = with_new_names(invocation.values)
    config = component_config(values, FUNCTION_FIELDS, FUNCTION_DEFAULTS | _config_file(values["function-config-file"]))
    if values["fqfn"] is not None:
        parts = values["fqfn"].split("/")
        if len(parts) != 3:
            raise UsageError("Fully qualified function names (FQFNs) must be of the form tenant/namespace/name")
        config["tenant"], config["namespace"], config["name"] = parts
    if values["function-type"] is not None:
        if values["jar"] is not None:
            raise UsageError("Cannot specify both jar and function-type")
        config["jar"] = BUILT_IN + values["function-type"]
    infer_place(config)
    if not config.get("name"):
        raise UsageError("Function Name not provided" if update else "No Function name specified")
    code = next((config[kind] for kind in _CODE if config.get(kind)), None)
    if not update:
        _check_function(config)
    _send(invocation, "/admin/v3/functions", "functionConfig", config, code, update=update)


def _check_function(config: dict[str, Any]) -> None:
    given = [kind for kind in _CODE if config.get(kind)]
    needed = "Either a Java jar or a Python file or a Go executable binary needs to be specified for the function."
    if not given:
        raise UsageError(f"{needed} Please specify one.")
    if len(given) > 1:
        raise UsageError(f"{needed} Cannot specify both.")
    code = config[given[0]]
    if given[0] != "go" and not code.startswith(BUILT_IN) and not config.get("className"):
        raise UsageError("No Function Classname specified")
    if not code.startswith((BUILT_IN, *_URLS)) and not os.path.exists(code):
        raise UsageError(f"The specified {_CODE[given[0]]} does not exist")


def send_source(invocation: Invocation, *, update: bool) -> None:
    _send_connector(invocation, "source", SOURCE_FIELDS, {}, update=update)


def send_sink(invocation: Invocation, *, update: bool) -> None:
    _send_connector(invocation, "sink", SINK_FIELDS, SINK_DEFAULTS, update=update)


def _send_connector(
    invocation: Invocation, what: str, fields: dict[str, str], defaults: dict[str, Any], *, update: bool
) -> None:
    values = with_new_names(invocation.values)
    config = component_config(values, fields, defaults | _config_file(values[f"{what}-config-file"]))
    kind = values[f"{what}-type"] or config.get(f"{what}Type")
    if kind is not None:
        if values["archive"] is not None:
            raise UsageError(f"Cannot specify both archive and {what}-type")
        config["archive"] = BUILT_IN + _known_type(invocation, what, kind)
    infer_place(config)
    archive = config.get("archive")
    if not update:
        if not archive:
            raise UsageError(f"{what.capitalize()} archive not specified")
        if not archive.startswith((BUILT_IN, *_URLS)) and not os.path.exists(archive):
            raise UsageError(f"{what.capitalize()} Archive {archive} does not exist")
        config.setdefault("parallelism", 1)
    if not config.get("name"):
        raise UsageError(f"{what.capitalize()} name not specified")
    _send(invocation, f"/admin/v3/{what}", f"{what}Config", config, archive, update=update)


def _known_type(invocation: Invocation, what: str, kind: str) -> str:
    known = [each["name"] for each in invocation.get(f"/admin/v3/{what}/builtin{what}s") or ()]
    if kind not in known:
        raise UsageError(f"Invalid {what} type '{kind}' -- Available {what}s are: [{', '.join(known)}]")
    return kind


def _send(
    invocation: Invocation, path: str, field: str, config: dict[str, Any], code: str | None, *, update: bool
) -> None:
    """Sends the configuration, and the file unless the worker fetches it from an address or has it built in."""
    fields = {field: json.dumps(config)}
    if update:
        fields["updateOptions"] = json.dumps({"updateAuthData": invocation["update-auth-data"]})
    file = None
    if code and code.startswith(_URLS):
        fields["url"] = code
    elif code and not code.startswith(BUILT_IN):
        file = (code, read_file(code))
    body, media_type = multipart(fields, "data", file)
    place = "".join("/" + quote(config[key], safe="") for key in ("tenant", "namespace", "name"))
    invocation.http.call("PUT" if update else "POST", path + place, (), body, media_type)
    invocation.say("Updated successfully" if update else "Created successfully")


def _config_file(path: str | None) -> dict[str, Any]:
    """Returns the configuration of a file of JSON, which is YAML as well. Other YAML is refused."""
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            config = json.loads(file.read(CONFIG_FILE_BYTES_MAX))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error} (the file must be JSON; other YAML is not read)") from None
    if not isinstance(config, dict):
        raise UsageError(f"{path} does not hold an object")
    return config
