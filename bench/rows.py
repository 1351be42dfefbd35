"""The rows of the table: what each figure is called, its goal, and what Apache Pulsar 4.0.7 reached on such a machine.

The documented figures are medians of warm runs with messages of 1 KB and fsync before the receipt, on two cores that
server and client share.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `more_is_better` decides how goal and ratio are read; `apache` is None when Apache was not
    measured."""

    key: str
    scenario: str
    title: str
    unit: str
    goal: float | None
    apache: float | None
    more_is_better: bool = False
    goal_ratio: float | None = None
    """How many times better than Apache the figure shall be, in the same run or against the documented figure."""

    def reached(self, figure: float, peer: float | None = None) -> bool:
        if self.goal_ratio is not None and peer is not None and self.ratio(figure, peer) < self.goal_ratio:
            return False
        if self.goal is None:
            return True
        return figure >= self.goal if self.more_is_better else figure <= self.goal

    def ratio(self, ours: float, theirs: float) -> float:
        """Returns how many times better than Apache our figure is; less than 1 is worse."""
        if self.more_is_better:
            return ours / theirs if theirs else float("inf")
        return theirs / ours if ours else float("inf")


LIFECYCLE, BATCHES, TAIL, CATCH_UP, LATENCY, SIGKILL = "lifecycle", "batches", "tail", "catchup", "latency", "sigkill"
BOOKIES = "bookies"
ADMIN = "admin"
BESIDE = "beside"
SPARK = "spark"
FEATURES = "features"
MANY_TOPICS = "many_topics"
WEBSOCKETS = "websockets"
TRANSACTIONS = "transactions"
OPEN_TRANSACTIONS = "open_transactions"
WITHOUT_TRANSACTIONS = "without_transactions"
CLUSTER = "cluster"
MORE_BROKERS = "brokers"
MORE_TOPICS = "more_topics"
SCALE = "scale"
SCRAPE = "scrape"
CONNECTIONS = "connections"
STARTS = "starts"
COLD = "cold"
PAGE = (LIFECYCLE, STARTS, BATCHES, TAIL, CATCH_UP, LATENCY, FEATURES, MANY_TOPICS, CONNECTIONS, TRANSACTIONS)
"""The scenarios of docs/PERFORMANCE.md: one server on one machine, and all that Apache can be measured by beside it."""
ASKED_FOR = (BESIDE, COLD, SCALE, SCRAPE)
"""Scenarios that run only when they are asked for by name, because they take many minutes."""
WIDE = "raw publish, batches of 1,000 × 100 B"
EACH = "1,000 topics, 100 B unbatched in turn"
READERS = "catch-up of 10 GB from the disk, batched, 8 readers"
TEN_TIMES = "10,000 topics, 100 B unbatched in turn"
CROWD = "10,000 connections, a consumer of a topic each"
OVER = "Spark batch read over the published connector's,"
BOUND = "the same, columns made beforehand,"
MANY = "publish through a broker, 3 bookies E3/Qw3/Qa2"
THREE = "three bookies E3/Qw3/Qa2"
BESIDE_WORKS = {
    "quiet": "alone",
    "reader": "beside a reader of a million messages",
    "compaction": "beside compaction",
    "upkeep": "beside checkpoints and garbage collection",
    "making": "beside 1,000 topics being made",
    "metrics": "beside /metrics of 10,000 topics",
    "admin": "beside 100 admin calls in flight",
}
PERF = "pulsar-perf transaction"
ON_OVER_OFF = "no transactions, switched on over off"
OURS = "our client to three bookies"


def _spark_costs(key: str, title: str) -> tuple[Row, Row]:
    """Returns the rows of the CPU that one of Spark's readers needs, and that the server needs for it."""
    return (
        Row(f"{key}_cpu", SPARK, title, "its CPU s/million", None, None),
        Row(f"{key}_server_cpu", SPARK, title, "server's CPU s/million", None, None),
    )


def _executors(count: int) -> tuple[Row, Row]:
    key, title = f"spark_{count}_executors", f"Spark batch read, batched, {count} executors"
    return (
        Row(f"{key}_rate", SPARK, title, "k rows/s", None, None, more_is_better=True),
        Row(f"{key}_cpu", SPARK, title, "its CPU s/million", None, None),
    )


ROWS = (
    Row("start", LIFECYCLE, "command to first message, new data", "s", 0.8, 12.5),
    Row("idle_memory", LIFECYCLE, "memory idle (PSS)", "MB", 40, 639),
    Row("idle_memory_web", LIFECYCLE, "memory idle after an HTTP request", "MB", None, None),
    Row("idle_cpu", LIFECYCLE, "idle CPU", "% of a core", 0.5, 1.8),
    Row("publish_rate", LIFECYCLE, "raw publish unbatched", "k msg/s", None, 44.4, more_is_better=True, goal_ratio=2.5),
    Row("publish_cpu", LIFECYCLE, "raw publish unbatched", "CPU s/million", 7, 38),
    Row("loaded_memory", LIFECYCLE, "memory after a million messages", "MB", 250, 2033),
    Row("start_after_kill", LIFECYCLE, "command to first message, SIGKILL, a million stored", "s", 1.5, 13.5),
    Row("stop", LIFECYCLE, "SIGTERM to ended, just after load", "s", 2.0, 5.7),
    Row("first_receipt", STARTS, "command to first receipt, new data", "s", 0.4, None),
    Row("first_receipt_after_kill", STARTS, "command to first receipt, SIGKILL, a million stored", "s", 0.6, None),
    Row("first_receipt_cpu", STARTS, "command to first receipt, new data", "CPU s", None, None),
    Row("first_receipt_after_kill_cpu", STARTS, "the same, SIGKILL, a million stored", "CPU s", None, None),
    Row("first_rest_call", STARTS, "first REST call, right after the first receipt", "ms", None, None),
    Row("first_rest_call_settled", STARTS, "first REST call, two seconds later", "ms", 20, None),
    Row("batch_rate", BATCHES, "raw publish, batches of 120", "k msg/s", 350, 227, more_is_better=True),
    Row("batch_cpu", BATCHES, "raw publish, batches of 120", "CPU s/million", 3.5, 7.3),
    Row("wide_batch_rate", BATCHES, WIDE, "k msg/s", None, 3100, more_is_better=True, goal_ratio=1.6),
    Row("wide_batch_cpu", BATCHES, WIDE, "CPU s/million", None, 0.5, goal_ratio=2.0),
    Row("tail_rate", TAIL, "tail consume unbatched, official client", "k msg/s", 18, 14.9, more_is_better=True),
    Row("tail_cpu", TAIL, "tail consume unbatched, official client", "CPU s/million", 30, 42),
    Row("catchup_batch_rate", CATCH_UP, "catch-up after a restart, batched", "k msg/s", 120, 50, more_is_better=True),
    Row("catchup_batch_cpu", CATCH_UP, "catch-up after a restart, batched", "CPU s/million", 5, 16),
    Row("catchup_rate", CATCH_UP, "catch-up after a restart, unbatched", "k msg/s", 60, 21.5, more_is_better=True),
    Row("catchup_cpu", CATCH_UP, "catch-up after a restart, unbatched", "CPU s/million", 18, 55),
    Row("official_batch", CATCH_UP, "the same batched, official client", "k msg/s", None, 50, more_is_better=True),
    Row("official_single", CATCH_UP, "the same unbatched, official client", "k msg/s", None, 21.5, more_is_better=True),
    Row("cold_rate", COLD, f"{READERS}, all together", "k msg/s", None, None, more_is_better=True, goal_ratio=1.5),
    Row("cold_cpu", COLD, f"{READERS}", "CPU s/million", None, None),
    Row("cold_quiet_p99", COLD, "publish latency at 1,000/s before them, p99", "ms", None, None),
    Row("cold_floor_p99", COLD, "4 KB written and synced 1,000/s beside a plain reader, p99", "ms", None, None),
    Row("cold_beside_p50", COLD, "publish latency at 1,000/s beside them, p50", "ms", None, None),
    Row("cold_beside_p99", COLD, "publish latency at 1,000/s beside them, p99", "ms", 4, None),
    Row("latency_p50", LATENCY, "publish latency at 1,000/s, p50", "ms", 0.45, 1.7),
    Row("latency_p99", LATENCY, "publish latency at 1,000/s, p99", "ms", 2, 57),
    Row("latency_p999", LATENCY, "publish latency at 1,000/s, p99.9", "ms", 5, None),
    Row("latency_max", LATENCY, "publish latency at 1,000/s, longest", "ms", 15, None),
    Row("slow_latency_p50", LATENCY, "publish latency at 100/s, p50", "ms", 0.8, 2.4),
    Row("synchronous_p50", LATENCY, "one synchronous publisher, official client, p50", "ms", 0.35, None),
    Row("synchronous_p99", LATENCY, "one synchronous publisher, official client, p99", "ms", 1.5, None),
    *(
        Row(f"beside_{key}_{quantile}", BESIDE, f"publish latency at 1,000/s {what}, {shown}", "ms", goal, None)
        for key, what in BESIDE_WORKS.items()
        for quantile, shown, goal in (("p99", "p99", 4), ("p999", "p99.9", 10))
    ),
    Row("beside_stall", BESIDE, "longest callback meanwhile, 0 below 10 ms", "CPU ms", 10, None),
    Row("beside_collections", BESIDE, "full garbage collections meanwhile", "ms", 10, None),
    Row("admin_quiet_p99", ADMIN, "publish latency at 1,000/s without admin calls, p99", "ms", None, None),
    Row("admin_loaded_p50", ADMIN, "publish latency with 1,000 admin calls in flight, p50", "ms", None, None),
    Row("admin_loaded_p99", ADMIN, "publish latency with 1,000 admin calls in flight, p99", "ms", None, None),
    Row("admin_ratio", ADMIN, "the same over the p99 without them", "times", 3.0, None),
    Row("bookie_rate", BOOKIES, "one bookie, v2", "k adds/s", None, 102, more_is_better=True, goal_ratio=1.0),
    Row("bookie_cpu", BOOKIES, "one bookie, v2", "CPU s/million", 8, 8.7),
    Row("bookies_v2_rate", BOOKIES, f"{THREE}, v2", "k adds/s", None, 23.8, more_is_better=True, goal_ratio=1.5),
    Row("bookies_v2_cpu", BOOKIES, f"{THREE}, v2", "CPU s/million", None, 32),
    Row("bookies_v3_rate", BOOKIES, f"{THREE}, v3", "k adds/s", None, 16.6, more_is_better=True, goal_ratio=1.0),
    Row("bookies_v3_cpu", BOOKIES, f"{THREE}, v3", "CPU s/million", None, 55),
    Row("bookies_p50", BOOKIES, f"{THREE}, v2 at 1,000/s, p50", "ms", None, 1.8, goal_ratio=1.25),
    Row("bookies_p99", BOOKIES, f"{THREE}, v2 at 1,000/s, p99", "ms", None, 7.0, goal_ratio=1.25),
    Row("bookie_memory", BOOKIES, "memory of a bookie after that load (PSS)", "MB", 200, 535),
    Row(
        "bookie_read_rate",
        BOOKIES,
        "batched sequential read after a restart",
        "k entries/s",
        None,
        27,
        more_is_better=True,
        goal_ratio=2.0,
    ),
    Row("bookie_read_cpu", BOOKIES, "batched sequential read after a restart", "CPU s/million", None, 39),
    Row("client_add_rate", BOOKIES, f"{OURS}, adds", "k adds/s", 25, None, more_is_better=True),
    Row("client_add_cpu", BOOKIES, f"{OURS}, adds", "its CPU s/million", None, None),
    Row("client_read_rate", BOOKIES, f"{OURS}, batched reads", "k entries/s", 60, None, more_is_better=True),
    Row("client_read_cpu", BOOKIES, f"{OURS}, batched reads", "its CPU s/million", None, None),
    Row("spark_batch_rate", SPARK, "Spark batch read, batched, local[2]", "k rows/s", 150, None, more_is_better=True),
    Row("spark_single_rate", SPARK, "Spark batch read, unbatched, local[2]", "k rows/s", 60, None, more_is_better=True),
    Row("spark_stream_rate", SPARK, "Spark stream, batches of 200 k", "k rows/s", 100, None, more_is_better=True),
    Row("published_batch_rate", SPARK, "published connector, batched", "k rows/s", None, None, more_is_better=True),
    Row("published_single_rate", SPARK, "published connector, unbatched", "k rows/s", None, None, more_is_better=True),
    Row("spark_batch_ratio", SPARK, f"{OVER} batched", "times", 1.5, None, more_is_better=True),
    Row("spark_single_ratio", SPARK, f"{OVER} unbatched", "times", 1.5, None, more_is_better=True),
    Row("prepared_batch_ratio", SPARK, f"{BOUND} batched", "times", None, None, more_is_better=True),
    Row("prepared_single_ratio", SPARK, f"{BOUND} unbatched", "times", None, None, more_is_better=True),
    *_spark_costs("spark_batch", "Spark batch read, batched"),
    *_spark_costs("prepared_batch", "the same, columns made beforehand"),
    *_spark_costs("published_batch", "published connector, batched"),
    *_spark_costs("spark_single", "Spark batch read, unbatched"),
    *_spark_costs("prepared_single", "the same, columns made beforehand"),
    *_spark_costs("published_single", "published connector, unbatched"),
    *_executors(2),
    *_executors(4),
    Row("fan_out_cpu", FEATURES, "one topic to ten subscriptions", "CPU s/million", None, 2.2, goal_ratio=1.0),
    Row("shared_cpu", FEATURES, "Shared, ten consumers", "CPU s/million", 14, None, goal_ratio=1.0),
    Row("key_shared_cpu", FEATURES, "Key_Shared, ten consumers", "CPU s/million", 18, None, goal_ratio=1.0),
    Row("topics_seconds", FEATURES, "1,000 producers on 1,000 topics created", "s", 10, 7.5),
    Row("topic_memory", FEATURES, "a topic with producer and subscription", "KB", 11, 227),
    Row("many_rate", MANY_TOPICS, f"{EACH}, 4 connections", "k msg/s", None, 10.8, more_is_better=True, goal_ratio=2.0),
    Row("many_cpu", MANY_TOPICS, f"{EACH}, 4 connections", "CPU s/million", 22, 89.9, goal_ratio=2.0),
    Row("many_tail_rate", MANY_TOPICS, "the same, a Shared tail of each", "k msg/s", None, None, True, goal_ratio=2.0),
    Row("many_tail_cpu", MANY_TOPICS, "the same, a Shared tail of each", "CPU s/million", None, None, goal_ratio=2.0),
    Row("many_wide_rate", MORE_TOPICS, f"{TEN_TIMES}, 4 connections", "k msg/s", None, None, True, goal_ratio=2.0),
    Row("many_wide_cpu", MORE_TOPICS, f"{TEN_TIMES}, 4 connections", "CPU s/million", None, None, goal_ratio=2.0),
    Row("many_lanes_rate", MORE_TOPICS, f"{EACH}, 1,000 connections", "k msg/s", None, None, True, goal_ratio=2.0),
    Row("many_lanes_cpu", MORE_TOPICS, f"{EACH}, 1,000 connections", "CPU s/million", None, None, goal_ratio=2.0),
    Row("connections_seconds", CONNECTIONS, f"{CROWD}, until all are subscribed", "s", None, None),
    Row("connections_cpu", CONNECTIONS, "the same, CPU of each", "ms", None, None),
    Row("connection_memory", CONNECTIONS, "a connection with its topic, subscription and consumer", "KB", 25, None),
    Row("reconnect_seconds", CONNECTIONS, "SIGKILL, then command until all are subscribed again", "s", 5, None),
    Row("reconnect_cpu", CONNECTIONS, "the same", "CPU s", None, None),
    Row("reconnect_refused", CONNECTIONS, "lookups and subscriptions refused in all of this", "requests", 0, None),
    Row("reconnect_lost", CONNECTIONS, "connections that ended before they were subscribed", "connections", 0, None),
    Row("holes_memory", FEATURES, "200,000 messages, every second acknowledged", "MB more", 40, 498),
    Row("holes_again", FEATURES, "of these, what comes again 2 s later after SIGKILL", "% of half", 100, None),
    Row("delayed_memory", FEATURES, "a million delayed messages", "MB more", 50, None),
    Row(
        "ws_publish_rate",
        WEBSOCKETS,
        "one WebSocket, publish",
        "k msg/s",
        None,
        None,
        more_is_better=True,
        goal_ratio=2.0,
    ),
    Row("ws_publish_cpu", WEBSOCKETS, "one WebSocket, publish", "CPU s/million", None, None, goal_ratio=2.0),
    Row(
        "ws_consume_rate",
        WEBSOCKETS,
        "one WebSocket, consume",
        "k msg/s",
        None,
        None,
        more_is_better=True,
        goal_ratio=2.0,
    ),
    Row("ws_consume_cpu", WEBSOCKETS, "one WebSocket, consume", "CPU s/million", None, None, goal_ratio=2.0),
    Row("ws_idle_memory", WEBSOCKETS, "an idle WebSocket of 1,000", "KB", 20, None),
    Row("ws_quiet_binary_rate", WEBSOCKETS, "raw publish unbatched", "k msg/s", None, None, more_is_better=True),
    Row(
        "ws_busy_binary_rate",
        WEBSOCKETS,
        "the same beside 100 busy WebSockets",
        "k msg/s",
        None,
        None,
        more_is_better=True,
    ),
    Row("ws_busy_ratio", WEBSOCKETS, "the same over that without them", "times", 0.9, None, more_is_better=True),
    Row("txn_rate", TRANSACTIONS, f"{PERF}, 1 message", "txn/s", None, None, more_is_better=True, goal_ratio=1.5),
    Row("txn_cpu", TRANSACTIONS, f"{PERF}, 1 message", "CPU ms each", None, None, goal_ratio=2.0),
    Row("txn_large_rate", TRANSACTIONS, f"{PERF}, 50 messages", "txn/s", None, None, True, goal_ratio=1.5),
    Row("txn_large_cpu", TRANSACTIONS, f"{PERF}, 50 messages", "CPU ms each", None, None, goal_ratio=2.0),
    Row("txn_on_publish_cpu", WITHOUT_TRANSACTIONS, f"{ON_OVER_OFF}, raw publish unbatched", "CPU, times", 1.02, None),
    Row("txn_on_consume_cpu", WITHOUT_TRANSACTIONS, f"{ON_OVER_OFF}, consuming them", "CPU, times", 1.02, None),
    Row("open_txn_memory", OPEN_TRANSACTIONS, "100,000 open transactions, a partition each", "MB more", 100, None),
    Row("txn_log_seconds", OPEN_TRANSACTIONS, "a coordinator's log of 1,000,000 records read, SIGKILL", "s", 5, None),
    Row("txn_log_cpu", OPEN_TRANSACTIONS, "the same, from the start command", "CPU s", None, None),
    Row("cluster_start", CLUSTER, "magnetar cluster, 2 brokers and 3 bookies, command to ready", "s", 10, None),
    Row("cluster_memory", CLUSTER, "2 brokers, 3 bookies and metadata, idle (PSS)", "MB", 400, 1286),
    Row("cluster_idle_cpu", CLUSTER, "the same, idle CPU", "% of a core", None, None),
    Row("cluster_rate", CLUSTER, f"{MANY}, unbatched", "k msg/s", None, 2.3, more_is_better=True, goal_ratio=1.5),
    Row("cluster_cpu", CLUSTER, f"{MANY}, unbatched, all processes", "CPU s/million", None, 254, goal_ratio=2.0),
    Row("cluster_batch_rate", CLUSTER, f"{MANY}, batches", "k msg/s", None, 36, more_is_better=True, goal_ratio=1.5),
    Row("cluster_batch_cpu", CLUSTER, f"{MANY}, batches, all processes", "CPU s/million", None, 18.2, goal_ratio=2.0),
    Row("cluster_kill_gap", CLUSTER, "SIGKILL of the owner, longest gap between receipts", "s", 1.5, 28.1),
    Row("cluster_term_gap", CLUSTER, "SIGTERM of the owner, the same", "s", 0.5, 6.4),
    Row("cluster_unload_gap", CLUSTER, "unload of the namespace, the same", "s", 0.5, 0.95),
    Row("cluster_moved", CLUSTER, "unload until 1,000 topics have receipts again", "s", 5, None),
    Row("cluster_frozen_gap", CLUSTER, "metadata stopped for 30 s, longest gap between receipts", "s", 1.0, 0.95),
    Row("cluster_refused", CLUSTER, "publishes refused in all of this", "messages", 0, 0),
    Row("cluster_lookup_loaded", CLUSTER, "lookup with 100,000 topics in the metadata, loaded, p99", "ms", 5, None),
    Row("cluster_lookup", CLUSTER, "the same, a topic that is not loaded, p99", "ms", 50, None),
    Row("brokers_cpu_1", MORE_BROKERS, "publish unbatched, 1 broker, its CPU", "CPU s/million", None, None),
    Row("brokers_cpu_2", MORE_BROKERS, "the same to each of 2 brokers at once, their CPU", "CPU s/million", None, None),
    Row("brokers_cpu_4", MORE_BROKERS, "the same to each of 4", "CPU s/million", None, None),
    Row("brokers_linear", MORE_BROKERS, "CPU of a message with 1 broker over that with 4", "times", 0.85, None, True),
    Row("brokers_busiest_4", MORE_BROKERS, "the busiest of the 4, its part of their CPU", "%", None, None),
    Row("brokers_metadata_4", MORE_BROKERS, "the metadata server with 4", "CPU s/million", None, None),
    Row("brokers_all_cpu_4", MORE_BROKERS, "all processes with 4", "CPU s/million", None, None),
    Row("sigkill", SIGKILL, "SIGKILL rounds with nothing lost", "% of rounds", 100, None, more_is_better=True),
    Row("scale_rest_rate", SCALE, "partitions made through REST", "k/s", None, None, more_is_better=True),
    Row(
        "scale_single_rate",
        SCALE,
        "topics without partitions made through REST",
        "k/s",
        None,
        None,
        more_is_better=True,
    ),
    Row(
        "scale_record_rate", SCALE, "records of topics written to the metadata", "k/s", None, None, more_is_better=True
    ),
    Row("scale_list", SCALE, "REST list of one namespace with all topics", "s", None, None),
    Row("scale_partitioned_list", SCALE, "REST list of its partitioned topics", "s", None, None),
    Row("scale_pattern", SCALE, "GET_TOPICS_OF_NAMESPACE with a pattern", "s", None, None),
    Row("scale_whole", SCALE, "GET_TOPICS_OF_NAMESPACE of everything, or its refusal", "s", None, None),
    Row("scale_lookup_loaded", SCALE, "lookup, loaded topic, p99", "ms", 5, None),
    Row("scale_lookup", SCALE, "lookup, topic that is not loaded, p99", "ms", 50, None),
    Row(
        "scale_namespace_policy",
        SCALE,
        "change of a namespace's policy, until the other broker has it",
        "s",
        None,
        None,
    ),
    Row("scale_topic_policy", SCALE, "change of a topic's policy", "s", None, None),
    Row("scale_idle_cpu", SCALE, "idle CPU of all processes", "% of a core", None, None),
    Row("scale_zookeeper_memory", SCALE, "metadata, memory (PSS)", "MB", None, None),
    Row("scale_bookies_memory", SCALE, "three bookies, memory (PSS)", "MB", None, None),
    Row("scale_broker_memory", SCALE, "the larger broker, memory (PSS)", "MB", None, None),
    Row("scale_start", SCALE, "start of a third broker, command to ready", "s", None, None),
    Row("scale_start_cpu", SCALE, "the same, until three seconds later", "CPU s", None, None),
    Row("scale_new_broker_memory", SCALE, "the third broker, memory (PSS)", "MB", None, None),
    Row("scale_kill_session", SCALE, "SIGKILL of a broker until its session has ended", "s", None, None),
    Row("scale_takeover", SCALE, "from there until its topics have producers at the other broker", "s", None, None),
    Row("scale_takeover_cpu", SCALE, "the same, at the other broker", "CPU s", None, None),
    Row("scale_taken", SCALE, "how many topics these are", "topics", None, None, more_is_better=True),
    Row("scale_zookeeper_start", SCALE, "metadata, SIGKILL and start, command to ready", "s", None, None),
    Row("scale_zookeeper_start_cpu", SCALE, "the same", "CPU s", None, None),
    Row("scale_zookeeper_peak", SCALE, "metadata, largest memory of the start (RSS)", "MB", None, None),
    Row("scale_errors", SCALE, "errors and held event loops in all logs", "lines", 0, None),
    Row("loaded_topics_memory", SCRAPE, "a broker with 100,000 loaded topics (PSS)", "MB", 1000, None),
    Row("loaded_topic_memory", SCRAPE, "a loaded topic", "KB", 8, None),
    Row("scrape_topic_memory", SCRAPE, "a loaded topic with a subscription", "KB", None, None),
    Row("scrape_seconds", SCRAPE, "the page of /metrics of all topics", "s", 30, None),
    Row("scrape_cpu", SCRAPE, "the same", "CPU s", None, None),
    Row("scrape_topic_bytes", SCRAPE, "a topic's part of the page, by gzip", "bytes", 1000, None),
    Row("scrape_stall", SCRAPE, "longest callback meanwhile, 0 below 5 ms", "CPU ms", 5, None),
    Row("scrape_collection", SCRAPE, "a full garbage collection meanwhile", "ms", None, None),
)

SCENARIOS = tuple(dict.fromkeys(row.scenario for row in ROWS))

Figures = Mapping[str, float]
"""Maps the key of a row to its figure, in the row's unit."""


def chosen_rows(names: str | None) -> tuple[Row, ...]:
    """Returns the rows whose key or scenario is among the comma-separated names; None stands for all rows but those of
    ASKED_FOR. Raises ValueError for an unknown name."""
    if names is None:
        return tuple(row for row in ROWS if row.scenario not in ASKED_FOR)
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    unknown = wanted - {row.key for row in ROWS} - set(SCENARIOS)
    if unknown:
        raise ValueError(
            f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)} and "
            f"{', '.join(row.key for row in ROWS)}"
        )
    return tuple(row for row in ROWS if row.key in wanted or row.scenario in wanted)
