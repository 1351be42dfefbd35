"""The rows of `broker-stats`, whose answers Java prints by Gson."""

from magnetar.server.tools.admin.command_table import FLAG, VALUE, Argument, Call, Command, Option
from magnetar.server.tools.admin.invocation import TEXT_FORMAT, Invocation
from magnetar.server.tools.admin.jackson_rules import gson, pretty

_INDENT = Option("-i --indent", "over several lines", FLAG)
_FOUR = "    "


def write_gson(invocation: Invocation, value: object, indent: str = _FOUR) -> None:
    """Prints without a line end, as Java does here."""
    import sys

    if invocation.form != TEXT_FORMAT:
        invocation.show(value)
    else:
        sys.stdout.write(gson(value, indent if invocation["indent"] else ""))


def _show_metrics(invocation: Invocation) -> None:
    import sys

    metrics = invocation.get("/admin/v2/broker-stats/metrics")
    if invocation.form != TEXT_FORMAT:
        invocation.show(metrics)
        return
    for metric in metrics or ():
        write_gson(invocation, metric)
        if invocation["indent"]:
            sys.stdout.write("\n\n")


def _show_mbeans(invocation: Invocation) -> None:
    write_gson(invocation, invocation.get("/admin/v2/broker-stats/mbeans"))


def _show_topics(invocation: Invocation) -> None:
    write_gson(invocation, invocation.get("/admin/v2/broker-stats/topics"))


def _show_allocator(invocation: Invocation) -> None:
    import sys

    stats = invocation.get("/admin/v2/broker-stats/allocator-stats/{allocator}")
    if invocation.form != TEXT_FORMAT:
        invocation.show(stats)
    else:
        sys.stdout.write(pretty(stats))


COMMANDS = (
    Command(
        "monitoring-metrics", "Shows the broker's metrics.", _show_metrics, (), (_INDENT,), VALUE, examples=("-i",)
    ),
    Command("mbeans", "Shows the broker's MBeans.", _show_mbeans, (), (_INDENT,), VALUE, examples=("-i",)),
    Command(
        "load-report",
        "Shows the broker's load.",
        Call("GET", "/admin/v2/broker-stats/load-report"),
        output=VALUE,
        examples=("",),
    ),
    Command(
        "topics",
        "Shows the statistics of the broker's topics.",
        _show_topics,
        (),
        (_INDENT,),
        VALUE,
        examples=("-i",),
        aliases=("destinations",),
    ),
    Command(
        "allocator-stats",
        "Shows the statistics of a memory allocator.",
        _show_allocator,
        (Argument("allocator", "the allocator's name: default, ml-cache"),),
        output=VALUE,
        examples=("default",),
    ),
)
