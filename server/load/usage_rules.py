"""Computes how full a broker is from its report. Does no I/O. Source: LocalBrokerData.getMaxResourceUsageWithWeight."""

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.broker_report import BrokerUsage


def weighted_usage(usage: BrokerUsage, settings: LoadSettings) -> float:
    """Returns the used fraction of the broker's fullest resource, where 1.0 is all of it. The fraction of each resource
    is multiplied by the resource's weight. Memory does not count (PIP-100 removed its weight)."""
    return max(
        usage.cpu.fraction * settings.load_balancer_cpu_resource_weight,
        usage.direct_memory.fraction * settings.load_balancer_direct_memory_resource_weight,
        usage.bandwidth_in.fraction * settings.load_balancer_bandwidth_in_resource_weight,
        usage.bandwidth_out.fraction * settings.load_balancer_bandwidth_out_resource_weight,
    )


def is_overloaded(usage: BrokerUsage, settings: LoadSettings) -> bool:
    threshold = settings.load_balancer_broker_overloaded_threshold_percentage / 100
    return weighted_usage(usage, settings) > threshold
