"""The settings of the page of /metrics: how much of topics and their clients it shows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The settings of the metrics. Each field has the snake_case name of a key in broker.conf and Pulsar 4.0's
    default."""

    expose_topic_level_metrics_in_prometheus: bool = True
    """Whether each topic and each subscription has metrics. If not, the topics of a namespace are summed up."""
    expose_consumer_level_metrics_in_prometheus: bool = False
    """Whether each consumer has metrics."""
    expose_producer_level_metrics_in_prometheus: bool = False
    """Whether each producer has metrics."""
    expose_managed_ledger_metrics_in_prometheus: bool = True
    """Whether `pulsar_ml_*` has the managed ledgers, by namespace and domain."""
    expose_managed_cursor_metrics_in_prometheus: bool = False
    """Whether `pulsar_ml_cursor_*` has each cursor."""
    split_topic_and_partition_label_in_prometheus: bool = False
    """Whether the label `topic` of a partition names the partitioned topic, and the label `partition` the number of the
    partition, which is -1 for a topic without partitions."""
    metrics_servlet_timeout_ms: int = 30_000
    """The time within which the page is made, or refused. 0 means that there is no such limit."""
