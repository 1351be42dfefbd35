"""The rows of `sources`."""

from magnetar.server.tools.admin.command_table import VALUE, Call, Command
from magnetar.server.tools.admin.component_rows import (
    NAMESPACE,
    SOURCES,
    TENANT,
    common_commands,
    described_commands,
    settle_namespace,
    show_built_in,
    show_gson,
)
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.admin.source_options import CREATE, LOCAL_RUN, UPDATE


def _list(invocation: Invocation) -> None:
    settle_namespace(invocation)
    show_gson(invocation, invocation.get("/admin/v3/source/{tenant}/{namespace}"))


COMMANDS = (
    *common_commands(SOURCES),
    *described_commands(SOURCES, CREATE, UPDATE, LOCAL_RUN),
    Command(
        "list",
        "Lists the sources of a namespace.",
        _list,
        (),
        (TENANT, NAMESPACE),
        VALUE,
        examples=("--tenant my-tenant --namespace my-namespace",),
    ),
    Command(
        "available-sources",
        "Lists the built-in connectors that are sources.",
        show_built_in("/admin/v3/source/builtinsources", "sourceClass"),
        output=VALUE,
        examples=("",),
    ),
    Command(
        "reload",
        "Lets the workers look for built-in connectors again.",
        Call("POST", "/admin/v3/source/reloadBuiltInSources"),
        examples=("",),
    ),
)
