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
    """The class that chooses a broker for a bundle: LeastLongTermMessageRate, LeastResourceUsageWithWeight,
    RoundRobinBrokerSelector or AvgShedder, with or without its package."""
    load_balancer_load_shedding_strategy: str = f"{STRATEGIES}ThresholdShedder"
    """The class that chooses the bundles to take away from busy brokers: ThresholdShedder, OverloadShedder,
    UniformLoadShedder or AvgShedder, with or without its package."""
    prefer_later_versions: bool = False
    """Whether only brokers of the newest version get bundles."""
    failure_domains_enabled: bool = False
    """Whether the bundles of a namespace are spread over the failure domains of the cluster."""

    # The following fields say when a broker reports its load.
    load_balancer_report_update_threshold_percentage: float = 10
    """A broker reports its load at once when it has changed by more than this."""
    load_balancer_report_update_min_interval_millis: int = 5_000
    """The shortest time between two reports of a broker."""
    load_balancer_report_update_max_interval_minutes: float = 15
    """The longest time between two reports of a broker."""
    load_balancer_host_usage_check_interval_minutes: float = 1
    """The interval at which a broker measures the usage of its machine."""
    load_balancer_override_broker_nic_speed_gbps: float = 0
    """The speed of each network interface in Gbit/s; 0 takes the speed that the system reports."""

    expose_bundles_metrics_in_prometheus: bool = False
    """Whether /metrics has the traffic of each bundle."""

    # The following fields say what counts when brokers are compared.
    load_balancer_broker_overloaded_threshold_percentage: float = 85
    """A broker whose usage is above this counts as overloaded."""
    load_balancer_broker_max_topics: int = 50_000
    """A broker with more topics gets no more bundles, unless all brokers have more."""
    load_balancer_distribute_bundles_evenly_enabled: bool = True
    """Whether the brokers that have the fewest bundles of a namespace are preferred for its next bundle."""
    load_balancer_average_resource_usage_difference_threshold_percentage: float = 10
    """LeastResourceUsageWithWeight: brokers whose usage is below the average by this much are candidates."""
    load_balancer_history_resource_percentage: float = 0.9
    """The weight of the past in a moving average of usage, from 0 to 1."""
    load_balancer_cpu_resource_weight: float = 1
    """How much the usage of the CPU counts."""
    load_balancer_direct_memory_resource_weight: float = 0
    """How much the usage of memory outside of Java's heap counts, which is that of Apache's brokers."""
    load_balancer_bandwidth_in_resource_weight: float = 1
    """How much incoming traffic counts."""
    load_balancer_bandwidth_out_resource_weight: float = 1
    """How much outgoing traffic counts."""

    # The following fields say how the leader spreads the load, and how often.
    load_balancer_resource_quota_update_interval_minutes: float = 15
    """The interval at which the leader writes the averages of bundles and brokers."""
    load_balancer_max_number_of_bundles_in_bundle_load_report: int = 10
    """The number of bundles for each broker whose averages the leader writes; 0 or less stands for all bundles."""
    load_balancer_shedding_enabled: bool = True
    """Whether bundles are taken away from busy brokers."""
    load_balancer_shedding_interval_minutes: float = 1
    """The interval between two looks for busy brokers."""
    load_balancer_shedding_grace_period_minutes: float = 30
    """How long a bundle that was moved stays where it is."""
    load_balancer_broker_threshold_shedder_percentage: float = 10
    """ThresholdShedder acts on brokers whose usage is above the average by more than this."""
    load_balancer_bundle_unload_min_throughput_threshold: float = 10
    """The smallest throughput, in MB per second, for which ThresholdShedder unloads bundles."""
    lower_boundary_shedding_enabled: bool = False
    """ThresholdShedder: whether load is also moved to brokers that are far below the average while none is far
    above it."""
    load_balancer_msg_rate_difference_shedder_threshold: float = 50
    """UniformLoadShedder acts when the message rates of the busiest and the idlest broker differ by more than this."""
    load_balancer_msg_throughput_multiplier_difference_shedder_threshold: float = 4
    """UniformLoadShedder acts when the busiest broker has this many times the throughput of the idlest broker; 0 turns
    the comparison off."""
    min_unload_message: int = 1_000
    """UniformLoadShedder and AvgShedder: the least message rate that is moved at once."""
    min_unload_message_throughput: int = 1_048_576
    """UniformLoadShedder and AvgShedder: the least throughput that is moved at once."""
    max_unload_percentage: float = 0.2
    """The share, from 0 to 1, of the load difference between two brokers that is moved at once."""
    max_unload_bundle_num_per_shedding: int = -1
    """How many bundles one shedding unloads at most; -1 means "no limit"."""
    load_balancer_avg_shedder_low_threshold: float = 15
    """AvgShedder: two brokers whose scores differ by this much are balanced after the low hit count."""
    load_balancer_avg_shedder_high_threshold: float = 40
    """AvgShedder: two brokers whose scores differ by this much are balanced after the high hit count."""
    load_balancer_avg_shedder_hit_count_low_threshold: int = 8
    """How many times in a row the low threshold must be reached."""
    load_balancer_avg_shedder_hit_count_high_threshold: int = 2
    """How many times in a row the high threshold must be reached."""

    # The following fields say when a bundle is split.
    load_balancer_auto_bundle_split_enabled: bool = True
    """Whether bundles above one of the limits that follow are split."""
    load_balancer_auto_unload_split_bundles_enabled: bool = True
    """Whether the halves of a bundle that was split are unloaded, so that another broker may get one."""
    load_balancer_namespace_bundle_max_topics: int = 1_000
    """A bundle with more topics is split."""
    load_balancer_namespace_bundle_max_sessions: int = 1_000
    """A bundle with more producers and consumers is split."""
    load_balancer_namespace_bundle_max_msg_rate: int = 30_000
    """A bundle with a higher message rate, in and out together, is split."""
    load_balancer_namespace_bundle_max_bandwidth_mbytes: int = 100
    """A bundle with more traffic, in and out together, is split."""
    load_balancer_namespace_maximum_bundles: int = 128
    """A namespace with this many bundles is not split further."""

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
