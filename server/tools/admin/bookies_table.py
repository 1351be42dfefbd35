"""The rows of `bookies`."""

from typing import Any

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.body_rules import without_missing
from magnetar.server.tools.admin.command_table import VALUE, Call, Command, Option, Values

_BOOKIE = Option("-b --bookie", "the bookie's id, host:port", required=True)
_PATH = "/admin/v2/bookies/racks-info/{bookie}"


def _rack(values: Values) -> dict[str, Any]:
    if values["rack"].strip() in ("", "/"):
        raise UsageError("rack name is invalid, it should not be null, empty or '/'")
    return without_missing({"rack": values["rack"], "hostname": values["hostname"]})


COMMANDS = (
    Command(
        "racks-placement",
        "Shows the racks of all bookies.",
        Call("GET", "/admin/v2/bookies/racks-info"),
        output=VALUE,
        examples=("",),
    ),
    Command("list-bookies", "Lists the bookies.", Call("GET", "/admin/v2/bookies/all"), output=VALUE, examples=("",)),
    Command(
        "get-bookie-rack",
        "Shows the rack of a bookie.",
        Call("GET", _PATH),
        (),
        (_BOOKIE,),
        VALUE,
        examples=("-b 10.0.0.5:3181",),
    ),
    Command(
        "set-bookie-rack",
        "Says in which rack a bookie is.",
        Call("POST", _PATH, (("group", "{group}"),), _rack),
        (),
        (
            Option("-g --group", "the group of the bookie", default="default"),
            _BOOKIE,
            Option("-r --rack", "the rack", required=True),
            Option("-hn --hostname", "the bookie's host"),
        ),
        examples=("-b 10.0.0.5:3181 -r /rack1",),
    ),
    Command(
        "delete-bookie-rack",
        "Forgets the rack of a bookie.",
        Call("DELETE", _PATH),
        (),
        (_BOOKIE,),
        examples=("-b 10.0.0.5:3181",),
    ),
)
