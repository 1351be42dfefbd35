"""`magnetar bench`: measures how fast messages go through a cluster."""

import argparse
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command
from magnetar.server.commands.message_arguments import CONNECTION_EXAMPLE, kind, run_told, settings_of
from magnetar.server.tools.connection.shared_options import add_shared_options

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

COMPRESSIONS = ("none", "lz4", "zlib", "zstd", "snappy")
TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")
DEFAULT_MESSAGES = 100_000

EPILOG = f"""\
examples:
  magnetar bench both --messages 100k --size 1k --remove       # a topic of its own, removed at the end
  magnetar bench pub orders --duration 30s --rate 5000         # latency at a steady rate
  magnetar bench sub orders --messages 1M --consumers 4
  magnetar bench both --producers 4 --consumers 4 --csv bench.csv -o json

The first line says all settings. Then come the rates of every client and of all together, with the quantiles of
the latency: of producers from sending to the receipt, of consumers from sending to receiving (in `both` only).
The figures include the client's own cost, 25 to 45 µs for each message in Python: use several processes, and
`make bench` of the project to compare servers.
exit codes: 0 all messages went through, 1 not all, 2 wrong usage, 130 Ctrl-C.
{CONNECTION_EXAMPLE}"""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "bench",
        summary="measure how fast messages go through a cluster",
        description="Measures rates and latencies of producers, of consumers, or of both.",
        epilog=EPILOG,
    )
    parser.add_argument("mode", choices=("pub", "sub", "both"))
    parser.add_argument("topic", nargs="?", default="", metavar="TOPIC", help="default: a new topic in public/default")
    parser.add_argument(
        "--messages", type=kind("count"), default=0, metavar="N", help="of all producers; default: 100k"
    )
    parser.add_argument("--duration", type=kind("duration_seconds"), default=0.0, metavar="TIME", help="such as 30s")
    parser.add_argument("--size", type=kind("size_bytes"), default=1024, metavar="SIZE", help="default: 1k")
    parser.add_argument("--producers", type=kind("count"), default=1, metavar="N", help="default: 1")
    parser.add_argument("--consumers", type=kind("count"), default=1, metavar="N", help="default: 1")
    parser.add_argument("--rate", type=kind("count"), default=0, metavar="N", help="messages a second of all producers")
    parser.add_argument("--processes", type=kind("count"), default=0, metavar="N", help="default: one for each client")
    parser.add_argument("--no-batching", action="store_true", help="an entry for each message")
    parser.add_argument(
        "--batch-delay", type=kind("duration_seconds"), default=0.001, metavar="TIME", help="default: 1ms"
    )
    parser.add_argument("--compression", choices=COMPRESSIONS, default="none")
    parser.add_argument(
        "--pending", type=kind("count"), default=1000, metavar="N", help="messages without receipt; default: 1000"
    )
    parser.add_argument("-t", "--type", choices=TYPES, default="Shared", help="of the subscription; default: Shared")
    parser.add_argument("--queue", type=kind("count"), default=1000, metavar="N", help="of a consumer; default: 1000")
    parser.add_argument("--remove", action="store_true", help="remove the topic at the end; only without TOPIC")
    parser.add_argument("--csv", default="", metavar="FILE", help="write a row for each client")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    add_shared_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    return run_told("bench", lambda: _bench(arguments))


def _bench(arguments: argparse.Namespace) -> int:
    import uuid

    from magnetar.server.tools.messages.bench_rules import HEADER, Plan
    from magnetar.server.tools.messages.benching import bench
    from magnetar.server.tools.messages.message_client import import_client, topic_name
    from magnetar.server.tools.messages.tool_errors import UsageError

    mode = arguments.mode
    if arguments.remove and arguments.topic:
        raise UsageError("--remove is for the bench's own topic: leave TOPIC out")
    if mode == "sub" and not arguments.topic:
        raise UsageError("bench sub needs a TOPIC that has messages")
    if mode == "both" and arguments.size < HEADER.size:
        raise UsageError(f"--size: {HEADER.size} bytes at least, which hold the time of sending")
    import_client()
    own = uuid.uuid4().hex[:8]
    producers = 0 if mode == "sub" else arguments.producers
    consumers = 0 if mode == "pub" else arguments.consumers
    plan = Plan(
        mode=mode,
        topic=topic_name(arguments.topic or f"bench-{own}"),
        messages=arguments.messages or (0 if arguments.duration else DEFAULT_MESSAGES),
        size_bytes=arguments.size,
        producers=producers,
        consumers=consumers,
        rate=arguments.rate,
        duration_s=arguments.duration,
        processes=min(arguments.processes or producers + consumers, producers + consumers),
        batching=not arguments.no_batching,
        batch_delay_s=arguments.batch_delay,
        compression=arguments.compression,
        pending=arguments.pending,
        subscription=f"magnetar-bench-{own}",
        subscription_type=arguments.type,
        queue=arguments.queue,
        from_earliest=mode == "sub",
    )
    return bench(
        settings_of(arguments),
        plan,
        as_json=arguments.output == "json",
        csv_path=arguments.csv,
        remove_topic=arguments.remove,
        quiet=arguments.quiet,
    )
