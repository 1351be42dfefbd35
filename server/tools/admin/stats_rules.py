"""Statistics as Java's classes of org.apache.pulsar.common.policies.data.stats print them."""

from typing import Any

DOUBLES = frozenset(
    {
        "averageMsgSize",
        "chunkedMessageRate",
        "messageAckRate",
        "msgRateExpired",
        "msgRateIn",
        "msgRateOut",
        "msgRateRedeliver",
        "msgThroughputIn",
        "msgThroughputOut",
    }
)
"""The fields that are doubles. A server may send a whole number, which Java prints as `0.0`."""


def with_doubles(value: Any) -> Any:
    """Returns the value with those fields as floats, at every depth."""
    if isinstance(value, list):
        return [with_doubles(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: float(item) if key in DOUBLES and type(item) is int else with_doubles(item) for key, item in value.items()
    }
