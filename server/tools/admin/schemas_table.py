"""The rows of `schemas`."""

import json
import os
from typing import Any

from magnetar.server.tools.admin.admin_errors import CommandError, RefusedError, UsageError
from magnetar.server.tools.admin.command_table import (
    BOOLEAN,
    FLAG,
    LINES,
    LONG,
    TOPIC_ARGUMENT,
    VALUE,
    Call,
    Command,
    Option,
    Values,
)
from magnetar.server.tools.admin.invocation import TEXT_FORMAT, Invocation
from magnetar.server.tools.admin.jackson_rules import gson
from magnetar.server.tools.admin.schema_rules import schema_info, shown_schema

SCHEMA_FILE_BYTES_MAX = 16 << 20
_BASE = "/admin/v2/schemas/{topic.below_namespace}"
_FILE = Option("-f --filename", "a file with type, schema and properties as JSON", required=True)


def _get(invocation: Invocation) -> None:
    version = invocation["version"]
    if version is not None and invocation["all-version"]:
        raise UsageError("Only one or neither of --version and --all-version can be specified.")
    if invocation["all-version"]:
        answers = invocation.get(_BASE + "/schemas").get("getSchemaResponses", ())
        invocation.show([schema_info(invocation.topic.local, each) for each in answers], LINES)
        return
    if version is not None and version < 0:
        raise UsageError(f"Option --version must be greater than 0, but found {version}")
    answer = invocation.get(_BASE + ("/schema" if version is None else "/schema/{version}"))
    info: dict[str, Any] = shown_schema(invocation.topic.local, answer)
    if version is None:
        info = {"version": answer["version"], "schemaInfo": info}
    if invocation.form == TEXT_FORMAT:
        invocation.say(gson(info, "  "))
    else:
        invocation.show(info)


def _payload(values: Values) -> dict[str, Any]:
    """Returns the file's schema as PostSchemaPayload has it."""
    path = values["filename"]
    try:
        with open(path, encoding="utf-8") as file:
            read = json.loads(file.read(SCHEMA_FILE_BYTES_MAX))
    except FileNotFoundError:
        absolute = os.path.abspath(path)
        more = "" if os.path.isabs(path) else f" Relative path {path} is resolved to {absolute}."
        raise CommandError(f"Schema file {path} is not found.{more}") from None
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {error}") from None
    if not isinstance(read, dict):
        raise CommandError(f"{path} does not hold an object")
    return {"type": read.get("type"), "schema": read.get("schema"), "properties": read.get("properties") or {}}


def _extract(_: Invocation) -> None:
    raise RefusedError("schemas extract reads a class of a jar, which needs Java: use Apache's pulsar-admin for it.")


_ONE = (TOPIC_ARGUMENT,)
COMMANDS = (
    Command(
        "get",
        "Shows the schema of a topic.",
        _get,
        _ONE,
        (
            Option("-v --version", "that version instead of the last one", LONG),
            Option("-a --all-version", "all versions", FLAG),
        ),
        VALUE,
        examples=("my-topic", "my-topic -v 1"),
    ),
    Command(
        "delete",
        "Deletes all versions of a topic's schema.",
        Call("DELETE", _BASE + "/schema", (("force", "{force}"),)),
        _ONE,
        (Option("-f --force", "also what is stored of it", FLAG),),
        examples=("my-topic",),
    ),
    Command(
        "upload",
        "Adds a schema to a topic.",
        Call("POST", _BASE + "/schema", body=_payload),
        _ONE,
        (_FILE,),
        examples=("my-topic -f schema.json",),
    ),
    Command(
        "extract",
        "Adds the schema of a Java class to a topic.",
        _extract,
        _ONE,
        (
            Option("-j --jar", "the jar with the class", required=True),
            Option("-t --type", "avro or json", required=True),
            Option("-c --classname", "the class", required=True),
            Option("-a --always-allow-null", "whether fields may be null", BOOLEAN, default=True),
            Option("-n --dry-run", "show it only", FLAG),
        ),
        VALUE,
        examples=("my-topic -j my.jar -t avro -c org.example.Order",),
    ),
    Command(
        "metadata",
        "Shows the stored state of a topic's schema.",
        Call("GET", _BASE + "/metadata"),
        _ONE,
        output=VALUE,
        examples=("my-topic",),
    ),
    Command(
        "compatibility",
        "Asks whether a schema could be added; fails when the question cannot be answered.",
        Call("POST", _BASE + "/compatibility", body=_payload),
        _ONE,
        (_FILE,),
        examples=("my-topic -f schema.json",),
    ),
)
