"""The settings for reporting and balancing the load of a cluster."""

from dataclasses import dataclass

STRATEGIES = "org.apache.pulsar.broker.loadbalance.impl."
"""The package of Apache's strategies. A configuration names a strategy by its Java class."""
PLACEMENTS = ("LeastLongTermMessageRate", "LeastResourceUsageWithWeight", "RoundRobinBrokerSelector", "AvgShedder")
SHEDDERS = ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """The settings of the load balancer. Each field has the snake_case name of a key in broker.conf and Pulsar 4.0's
    default. Rates are per second. Thresholds and percentages are in percent unless the field's text says otherwise; hit
    counts are plain numbers."""

    load_balancer_enabled: bool = True
    """Whether the load is balanced. If this is off, a broker is registered but does not report its load, and as the
    leader it neither sheds nor splits bundles."""
    load_manager_class_name: str = f"{STRATEGIES}ModularLoadManagerImpl"
    """The class of the load manager. The setting has no effect, because this broker always has the modular load
    manager."""
    load_balancer_load_placement_strategy: str = f"{STRATEGIES}LeastLongTermMessageRate"
    load_balancer_load_shedding_strategy: str = f"{STRATEGIES}ThresholdShedder"
    prefer_later_versions: bool = False
    """Whether only brokers of the newest version get bundles."""
    failure_domains_enabled: bool = False

    # The following fields say when a broker reports its load.
    load_balancer_report_update_threshold_percentage: float = 10
    load_balancer_report_update_min_interval_millis: int = 5_000
    load_balancer_report_update_max_interval_minutes: float = 15
    load_balancer_host_usage_check_interval_minutes: float = 1
    load_balancer_override_broker_nic_speed_gbps: float = 0
    """The speed of each network interface in Gbit/s; 0 takes the speed that the system reports."""

    expose_bundles_metrics_in_prometheus: bool = False
    """Whether /metrics has the traffic of each bundle."""

    # The following fields say what counts when brokers are compared.
    load_balancer_broker_overloaded_threshold_percentage: float = 85
    load_balancer_broker_max_topics: int = 50_000
    load_balancer_distribute_bundles_evenly_enabled: bool = True
    load_balancer_average_resource_usage_difference_threshold_percentage: float = 10
    load_balancer_history_resource_percentage: float = 0.9
    """The weight of the past in a moving average of usage, from 0 to 1."""
    load_balancer_cpu_resource_weight: float = 1
    load_balancer_direct_memory_resource_weight: float = 0
    load_balancer_bandwidth_in_resource_weight: float = 1
    load_balancer_bandwidth_out_resource_weight: float = 1

    # The following fields say how the leader spreads the load, and how often.
    load_balancer_resource_quota_update_interval_minutes: float = 15
    load_balancer_max_number_of_bundles_in_bundle_load_report: int = 10
    """The number of bundles for each broker whose averages the leader writes; 0 or less stands for all bundles."""
    load_balancer_shedding_enabled: bool = True
    load_balancer_shedding_interval_minutes: float = 1
    load_balancer_shedding_grace_period_minutes: float = 30
    """How long a bundle that was moved stays where it is."""
    load_balancer_broker_threshold_shedder_percentage: float = 10
    load_balancer_bundle_unload_min_throughput_threshold: float = 10
    """The smallest throughput, in MB per second, for which ThresholdShedder unloads bundles."""
    lower_boundary_shedding_enabled: bool = False
    load_balancer_msg_rate_difference_shedder_threshold: float = 50
    load_balancer_msg_throughput_multiplier_difference_shedder_threshold: float = 4
    """UniformLoadShedder acts when the busiest broker has this many times the throughput of the idlest broker; 0 turns
    the comparison off."""
    min_unload_message: int = 1_000
    min_unload_message_throughput: int = 1_048_576
    max_unload_percentage: float = 0.2
    """The share, from 0 to 1, of the load difference between two brokers that is moved at once."""
    max_unload_bundle_num_per_shedding: int = -1
    """How many bundles one shedding unloads at most; -1 means "no limit"."""
    load_balancer_avg_shedder_low_threshold: float = 15
    load_balancer_avg_shedder_high_threshold: float = 40
    load_balancer_avg_shedder_hit_count_low_threshold: int = 8
    load_balancer_avg_shedder_hit_count_high_threshold: int = 2

    # The following fields say when a bundle is split.
    load_balancer_auto_bundle_split_enabled: bool = True
    load_balancer_auto_unload_split_bundles_enabled: bool = True
    load_balancer_namespace_bundle_max_topics: int = 1_000
    load_balancer_namespace_bundle_max_sessions: int = 1_000
    load_balancer_namespace_bundle_max_msg_rate: int = 30_000
    load_balancer_namespace_bundle_max_bandwidth_mbytes: int = 100
    load_balancer_namespace_maximum_bundles: int = 128

    @property
    def placement(self) -> str:
        """The name of the placement strategy, without its package. Apache's default takes the place of an unknown
        strategy (ModularLoadManagerStrategy.create)."""
        name = self.load_balancer_load_placement_strategy.removeprefix(STRATEGIES)
        return name if name in PLACEMENTS else PLACEMENTS[0]

    @property
    def shedder(self) -> str:
        """The name of the shedding strategy, without its package. OverloadShedder takes the place of an unknown
        strategy (ModularLoadManagerImpl.createLoadSheddingStrategy)."""
        name = self.load_balancer_load_shedding_strategy.removeprefix(STRATEGIES)
        return name if name in SHEDDERS else "OverloadShedder"
