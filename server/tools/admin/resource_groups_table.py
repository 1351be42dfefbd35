"""The rows of `resourcegroups`."""

from typing import Any

from magnetar.server.tools.admin.body_rules import without_missing
from magnetar.server.tools.admin.command_table import (
    INTEGER,
    LINES,
    LONG,
    VALUE,
    Argument,
    Call,
    Command,
    Option,
    Values,
)

_GROUP = Argument("group", "the group's name")
_PATH = "/admin/v2/resourcegroups/{group}"
_RATES = (
    Option("-mp --msg-publish-rate", "messages a second that may be published", INTEGER),
    Option("-bp --byte-publish-rate", "bytes a second that may be published", LONG),
    Option("-md --msg-dispatch-rate", "messages a second that are delivered", INTEGER),
    Option("-bd --byte-dispatch-rate", "bytes a second that are delivered", LONG),
)


def _body(values: Values) -> dict[str, Any]:
    return without_missing(
        {
            "publishRateInMsgs": values["msg-publish-rate"],
            "publishRateInBytes": values["byte-publish-rate"],
            "dispatchRateInMsgs": values["msg-dispatch-rate"],
            "dispatchRateInBytes": values["byte-dispatch-rate"],
        }
    )


COMMANDS = (
    Command("list", "Lists the groups.", Call("GET", "/admin/v2/resourcegroups"), output=LINES, examples=("",)),
    Command("get", "Shows a group.", Call("GET", _PATH), (_GROUP,), output=VALUE, examples=("my-group",)),
    Command(
        "create",
        "Creates a group.",
        Call("PUT", _PATH, body=_body),
        (_GROUP,),
        _RATES,
        examples=("my-group -mp 1000 -md 2000",),
    ),
    Command(
        "update", "Changes a group.", Call("PUT", _PATH, body=_body), (_GROUP,), _RATES, examples=("my-group -mp 10",)
    ),
    Command("delete", "Deletes a group.", Call("DELETE", _PATH), (_GROUP,), examples=("my-group",)),
)
