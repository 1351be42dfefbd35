"""The keys of broker.conf about reports of load and the spreading of bundles. `LoadSettings` describes each key."""

from dataclasses import replace

from magnetar.server.config.key_kinds import MAX_INT, YEAR_MINUTES, Key, any_text, number, switch, text, whole

WEIGHT_MAX = 1_000_000


def _percent(name: str) -> Key:
    return number(name, 0, 10_000, "percent")


def _minutes(name: str) -> Key:
    """Returns the key of an interval. Java takes whole minutes only; this broker also takes fractions."""
    return number(name, 0.001, YEAR_MINUTES, "minutes")


def _weight(name: str, right_name: str = "") -> Key:
    """Returns the key of a resource's weight. Two of Apache's keys have a misspelt name beside the right name; for a
    misspelt key, `right_name` is the right name."""
    key = number(name, 0, WEIGHT_MAX)
    return replace(key, fields=number(right_name, 0, WEIGHT_MAX).fields) if right_name else key


BROKER_LOAD_MANAGER = text(
    "loadManagerClassName",
    r"(.*\.)?ModularLoadManagerImpl",
    "ModularLoadManagerImpl, which all brokers of a cluster must have",
)
"""The load manager of a broker. Another one is refused, because a broker must keep the owners of bundles in the place
where the other brokers of the cluster keep them."""

STANDALONE_LOAD_MANAGER = any_text("loadManagerClassName")
"""The load manager of a standalone server, which owns all bundles. Pulsar's standalone.conf names NoopLoadManager."""

LOAD = (
    switch("loadBalancerEnabled"),
    any_text("loadBalancerLoadPlacementStrategy"),
    any_text("loadBalancerLoadSheddingStrategy"),
    switch("preferLaterVersions"),
    switch("failureDomainsEnabled"),
    _percent("loadBalancerReportUpdateThresholdPercentage"),
    whole("loadBalancerReportUpdateMinIntervalMillis", 10, MAX_INT, "milliseconds"),
    _minutes("loadBalancerReportUpdateMaxIntervalMinutes"),
    _minutes("loadBalancerHostUsageCheckIntervalMinutes"),
    number("loadBalancerOverrideBrokerNicSpeedGbps", 0, 1_000_000, "Gbit/s"),
    switch("exposeBundlesMetricsInPrometheus"),
    _percent("loadBalancerBrokerOverloadedThresholdPercentage"),
    whole("loadBalancerBrokerMaxTopics", 0, MAX_INT, "topics"),
    switch("loadBalancerDistributeBundlesEvenlyEnabled"),
    _percent("loadBalancerAverageResourceUsageDifferenceThresholdPercentage"),
    number("loadBalancerHistoryResourcePercentage", 0, 1),
    replace(_weight("loadBalancerCPUResourceWeight"), fields=("load_balancer_cpu_resource_weight",)),
    _weight("loadBalancerDirectMemoryResourceWeight"),
    _weight("loadBalancerBandwidthInResourceWeight"),
    _weight("loadBalancerBandwidthOutResourceWeight"),
    _weight("loadBalancerBandwithInResourceWeight", "loadBalancerBandwidthInResourceWeight"),
    _weight("loadBalancerBandwithOutResourceWeight", "loadBalancerBandwidthOutResourceWeight"),
    _minutes("loadBalancerResourceQuotaUpdateIntervalMinutes"),
    whole("loadBalancerMaxNumberOfBundlesInBundleLoadReport", -1, MAX_INT, "bundles"),
    switch("loadBalancerSheddingEnabled"),
    _minutes("loadBalancerSheddingIntervalMinutes"),
    number("loadBalancerSheddingGracePeriodMinutes", 0, YEAR_MINUTES, "minutes"),
    _percent("loadBalancerBrokerThresholdShedderPercentage"),
    number("loadBalancerBundleUnloadMinThroughputThreshold", 0, MAX_INT, "MB a second"),
    switch("lowerBoundarySheddingEnabled"),
    _percent("loadBalancerMsgRateDifferenceShedderThreshold"),
    number("loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold", 0, MAX_INT),
    whole("minUnloadMessage", 0, MAX_INT, "messages a second"),
    whole("minUnloadMessageThroughput", 0, MAX_INT, "bytes a second"),
    number("maxUnloadPercentage", 0, 1),
    whole("maxUnloadBundleNumPerShedding", -1, MAX_INT, "bundles"),
    _percent("loadBalancerAvgShedderLowThreshold"),
    _percent("loadBalancerAvgShedderHighThreshold"),
    whole("loadBalancerAvgShedderHitCountLowThreshold", 1, MAX_INT),
    whole("loadBalancerAvgShedderHitCountHighThreshold", 1, MAX_INT),
    switch("loadBalancerAutoBundleSplitEnabled"),
    switch("loadBalancerAutoUnloadSplitBundlesEnabled"),
    whole("loadBalancerNamespaceBundleMaxTopics", 1, MAX_INT, "topics"),
    whole("loadBalancerNamespaceBundleMaxSessions", 1, MAX_INT, "producers and consumers"),
    whole("loadBalancerNamespaceBundleMaxMsgRate", 1, MAX_INT, "messages a second"),
    whole("loadBalancerNamespaceBundleMaxBandwidthMbytes", 1, MAX_INT, "MB a second"),
    whole("loadBalancerNamespaceMaximumBundles", 1, MAX_INT, "bundles"),
)
