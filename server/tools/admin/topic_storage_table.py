"""The rows of `topics` that show statistics and concern what is stored."""

from magnetar.server.tools.admin.command_table import (
    BYTES,
    FLAG,
    PERSISTENT_TOPIC_ARGUMENT,
    TOPIC_ARGUMENT,
    VALUE,
    Call,
    Command,
    Option,
    Query,
)
from magnetar.server.tools.admin.topic_steps import (
    offload,
    partitioned_terminate,
    show_compaction_status,
    show_internal_info,
    show_offload_status,
    terminate,
)

PRECISE = Option("-gpb --get-precise-backlog", "count the backlog precisely", FLAG)
METADATA_FLAG = Option("-m --metadata", "with the ledgers' metadata", FLAG)
WAIT = Option("-w --wait-complete", "wait until it has ended", FLAG)
PER_PARTITION = Option("--per-partition", "also for each partition", FLAG)
_BACKLOG_SIZE = Option("-sbs --get-subscription-backlog-size", "leave the backlog's size out", FLAG, default=True)
_EARLIEST = Option("-etb --get-earliest-time-in-backlog", "with the time of the oldest message", FLAG)


def stats_query(*, size: str, earliest: str) -> Query:
    return (
        ("getPreciseBacklog", "{get-precise-backlog}"),
        ("subscriptionBacklogSize", size),
        ("getEarliestTimeInBacklog", earliest),
        ("excludePublishers", "false"),
        ("excludeConsumers", "false"),
    )


_STATS = stats_query(size="{get-subscription-backlog-size}", earliest="{get-earliest-time-in-backlog}")
COMMANDS = (
    Command(
        "stats",
        "Shows the statistics of a topic with its producers and consumers.",
        Call("GET", "{topic}/stats", _STATS),
        (TOPIC_ARGUMENT,),
        (PRECISE, _BACKLOG_SIZE, _EARLIEST),
        VALUE,
        stats=True,
        examples=("my-topic",),
    ),
    Command(
        "stats-internal",
        "Shows the ledgers and cursors of a topic.",
        Call("GET", "{topic}/internalStats", (("metadata", "{metadata}"),)),
        (TOPIC_ARGUMENT,),
        (METADATA_FLAG,),
        VALUE,
        examples=("my-topic",),
        aliases=("internal-stats",),
    ),
    Command(
        "info-internal",
        "Shows the stored metadata of a topic.",
        show_internal_info,
        (TOPIC_ARGUMENT,),
        output=VALUE,
        examples=("my-topic",),
        aliases=("internal-info",),
    ),
    Command(
        "partitioned-stats",
        "Shows the statistics of a partitioned topic.",
        Call("GET", "{topic}/partitioned-stats", (("perPartition", "{per-partition}"), *_STATS)),
        (TOPIC_ARGUMENT,),
        (PER_PARTITION, PRECISE, _BACKLOG_SIZE, _EARLIEST),
        VALUE,
        stats=True,
        examples=("my-topic --per-partition",),
    ),
    Command(
        "partitioned-stats-internal",
        "Shows the ledgers and cursors of a partitioned topic.",
        Call("GET", "{topic}/partitioned-internalStats"),
        (TOPIC_ARGUMENT,),
        output=VALUE,
        examples=("my-topic",),
    ),
    Command(
        "terminate",
        "Ends a topic: nothing can be published to it any more.",
        terminate,
        (PERSISTENT_TOPIC_ARGUMENT,),
        output=VALUE,
        examples=("my-topic",),
    ),
    Command(
        "partitioned-terminate",
        "Ends a partitioned topic.",
        partitioned_terminate,
        (PERSISTENT_TOPIC_ARGUMENT,),
        output=VALUE,
        examples=("my-topic",),
    ),
    Command(
        "compact",
        "Begins to compact a topic.",
        Call("PUT", "{topic}/compaction"),
        (PERSISTENT_TOPIC_ARGUMENT,),
        message="Topic compaction requested for {topic}",
        examples=("my-topic",),
    ),
    Command(
        "compaction-status",
        "Shows how far a compaction is.",
        show_compaction_status,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (WAIT,),
        VALUE,
        examples=("my-topic -w",),
        aliases=("compact-status",),
    ),
    Command(
        "offload",
        "Begins to offload a topic's ledgers.",
        offload,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (Option("-s --size-threshold", "how much stays in BookKeeper: 10M, 5G", BYTES, required=True),),
        VALUE,
        examples=("my-topic -s 10M",),
    ),
    Command(
        "offload-status",
        "Shows how far an offload is.",
        show_offload_status,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (WAIT,),
        VALUE,
        examples=("my-topic -w",),
    ),
    Command(
        "trim-topic",
        "Deletes ledgers that nobody needs any more.",
        Call("POST", "{topic}/trim"),
        (TOPIC_ARGUMENT,),
        examples=("my-topic",),
    ),
)
