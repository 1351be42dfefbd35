"""The rows of `functions`."""

from magnetar.server.tools.admin.command_table import FLAG, LINES, VALUE, Call, Command, Option
from magnetar.server.tools.admin.component_rows import (
    FUNCTIONS,
    NAMESPACE,
    TENANT,
    common_commands,
    described_commands,
    settle_namespace,
    show_built_in,
    stats_command,
)
from magnetar.server.tools.admin.function_options import CREATE, LOCAL_RUN, UPDATE
from magnetar.server.tools.admin.function_steps import download, put_state, query_state, trigger, upload
from magnetar.server.tools.admin.invocation import Invocation

_EXAMPLE = "--tenant my-tenant --namespace my-namespace --name my-function"


def _list(invocation: Invocation) -> None:
    settle_namespace(invocation)
    invocation.show(invocation.get("/admin/v3/functions/{tenant}/{namespace}"))


COMMANDS = (
    *common_commands(FUNCTIONS),
    stats_command(FUNCTIONS),
    *described_commands(FUNCTIONS, CREATE, UPDATE, LOCAL_RUN),
    Command(
        "list",
        "Lists the functions of a namespace.",
        _list,
        (),
        (TENANT, NAMESPACE),
        LINES,
        examples=("--tenant my-tenant --namespace my-namespace",),
    ),
    Command(
        "querystate",
        "Shows a value of a function's state.",
        query_state,
        (),
        (*FUNCTIONS.own, Option("-k --key", "the key"), Option("-w --watch", "again every second", FLAG)),
        VALUE,
        examples=(f"{_EXAMPLE} -k counter",),
    ),
    Command(
        "putstate",
        "Sets a value of a function's state.",
        put_state,
        (),
        (*FUNCTIONS.own, Option("-s --state", 'the value as JSON: {"key": …, "stringValue": …}', required=True)),
        examples=(f'{_EXAMPLE} -s \'{{"key": "k", "stringValue": "v"}}\'',),
    ),
    Command(
        "trigger",
        "Gives a function a message and shows what it makes of it.",
        trigger,
        (),
        (
            *FUNCTIONS.own,
            Option("--triggerValue", "the message", hidden=True),
            Option("--trigger-value", "the message"),
            Option("--triggerFile", "a file that holds the message", hidden=True),
            Option("--trigger-file", "a file that holds the message"),
            Option("--topic", "the input topic that it seems to come from"),
        ),
        VALUE,
        examples=(f"{_EXAMPLE} --trigger-value hello",),
    ),
    Command(
        "upload",
        "Stores a file in BookKeeper.",
        upload,
        (),
        (
            Option("--sourceFile", "the file", hidden=True),
            Option("--source-file", "the file"),
            Option("--path", "where to", required=True),
        ),
        VALUE,
        examples=("--source-file my.jar --path public/default/my.jar",),
    ),
    Command(
        "download",
        "Fetches a file, or a function's package, from BookKeeper.",
        download,
        (),
        (
            *FUNCTIONS.own,
            Option("--destinationFile", "where to", hidden=True),
            Option("--destination-file", "where to"),
            Option("--path", "the stored file, instead of a function's name"),
            Option("--transform-function", "the package of a sink's transform function", FLAG),
        ),
        VALUE,
        examples=(f"{_EXAMPLE} --destination-file my.jar",),
    ),
    Command(
        "reload",
        "Lets the workers look for built-in functions again.",
        Call("POST", "/admin/v3/functions/builtins/reload"),
        examples=("",),
    ),
    Command(
        "available-functions",
        "Lists the built-in functions.",
        show_built_in("/admin/v3/functions/builtins", "functionClass"),
        output=VALUE,
        examples=("",),
    ),
)
