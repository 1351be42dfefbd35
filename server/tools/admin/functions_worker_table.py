"""The rows of `functions-worker`."""

from magnetar.server.tools.admin.command_table import LINES, MAP, VALUE, Call, Command

COMMANDS = (
    Command(
        "function-stats",
        "Shows the statistics of a worker's functions.",
        Call("GET", "/admin/v2/worker-stats/functionsmetrics"),
        output=LINES,
        examples=("",),
    ),
    Command(
        "monitoring-metrics",
        "Shows the metrics of a worker.",
        Call("GET", "/admin/v2/worker-stats/metrics"),
        output=VALUE,
        examples=("",),
    ),
    Command("get-cluster", "Lists the workers.", Call("GET", "/admin/v2/worker/cluster"), output=LINES, examples=("",)),
    Command(
        "get-cluster-leader",
        "Shows the worker that leads.",
        Call("GET", "/admin/v2/worker/cluster/leader"),
        output=VALUE,
        examples=("",),
    ),
    Command(
        "get-function-assignments",
        "Shows which worker runs which function.",
        Call("GET", "/admin/v2/worker/assignments"),
        output=MAP,
        examples=("",),
    ),
    Command(
        "rebalance",
        "Spreads the functions over the workers anew.",
        Call("PUT", "/admin/v2/worker/rebalance"),
        message="Rebalance command sent successfully",
        examples=("",),
    ),
)
