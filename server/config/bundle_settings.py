"""The settings for unloading and splitting bundles."""

from dataclasses import dataclass

SPLIT_ALGORITHMS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)


@dataclass(frozen=True, slots=True)
class BundleSettings:
    """The settings of bundles. Each field has the snake_case name of a key in broker.conf and Pulsar 4.0's default."""

    namespace_bundle_unloading_timeout_ms: int = 60_000
    """How long the topics of a bundle may take to be closed. After this time the bundle is given away all the same, and
    the bundle's next owner recovers the topics."""
    default_namespace_bundle_split_algorithm: str = "range_equally_divide"
    """How a bundle is cut in two when a split names no algorithm."""
    supported_namespace_bundle_split_algorithms: tuple[str, ...] = SPLIT_ALGORITHMS
    """The algorithms that a split may name."""
    flow_or_qps_difference_threshold_percentage: float = 10
    """By how much a bundle must exceed a limit before the algorithm flow_or_qps_equally_divide splits it."""
    load_balancer_namespace_bundle_max_msg_rate: int = 30_000
    """The message rate above which a bundle is split: messages per second, in and out together."""
    load_balancer_namespace_bundle_max_bandwidth_mbytes: int = 100
    """The traffic above which a bundle is split: MiB per second, in and out together."""
