"""Reads the values of policies from JSON and checks them. This module does no I/O.

A reader returns the value that is stored, or None when the policy is to be removed; it raises Refusal 400 for a value
of a wrong kind. A check raises Refusal with Apache's code and text for a value that makes no sense. Sources: the
classes named in `policy_values`; NamespacesBase, PersistentTopicsBase; answers recorded from Pulsar 4.0.7."""

from collections.abc import Callable, Mapping
from typing import Any

from magnetar.server.admin import bodies
from magnetar.server.admin.bodies import LONG_MAX
from magnetar.server.config.topic_settings import ALL_SUBSCRIPTION_TYPES
from magnetar.server.policies.policy_values import UNLIMITED, BacklogAction, InactiveTopicDeleteMode
from magnetar.server.schema.strategies import STRATEGY_NAMES
from magnetar.server.web.calls import Refusal

Read = Callable[[Any], Any]
Check = Callable[[Any], None]

AUTO_UPDATE_STRATEGIES = (
    "AutoUpdateDisabled",
    "Backward",
    "Forward",
    "Full",
    "AlwaysCompatible",
    "BackwardTransitive",
    "ForwardTransitive",
    "FullTransitive",
)
ENSEMBLE_MAX = 5
"""The largest ensemble, and the largest quorum, that Apache allows in a policy."""


def long(value: Any) -> int:
    return bodies.integer(value, LONG_MAX)


def true_or_given(value: Any) -> bool:
    """Reads a switch. A missing body means "on", because the call of Java's client has no body."""
    return True if value is None else bodies.boolean(value)


def strategy(value: Any) -> str | None:
    return None if value is None else bodies.one_of(value, STRATEGY_NAMES)


def auto_update_strategy(value: Any) -> str | None:
    return None if value is None else bodies.one_of(value, AUTO_UPDATE_STRATEGIES)


def subscription_auth_mode(value: Any) -> str:
    return "None" if value is None else bodies.one_of(value, ("None", "Prefix"))


def subscription_types(value: Any) -> list[str]:
    return [] if value is None else sorted(bodies.some_of(value, ALL_SUBSCRIPTION_TYPES))


def _object(readers: dict[str, Read]) -> Read:
    """Returns a reader of objects that have these fields."""

    def read(value: Any) -> Any:
        return None if value is None else bodies.fields(value, readers)

    return read


def _or(default: int, most: int = bodies.INT_MAX) -> Read:
    """Returns a reader of whole numbers that reads null as `default`."""
    return lambda value: default if value is None else bodies.integer(value, most)


retention = _object({"retentionTimeInMinutes": bodies.integer, "retentionSizeInMB": long})

dispatch_rate = _object(
    {
        "dispatchThrottlingRateInMsg": _or(UNLIMITED),
        "dispatchThrottlingRateInByte": _or(UNLIMITED, LONG_MAX),
        "relativeToPublishRate": bodies.boolean,
        "ratePeriodInSecond": _or(1),
    }
)

publish_rate = _object(
    {"publishThrottlingRateInMsg": _or(UNLIMITED), "publishThrottlingRateInByte": _or(UNLIMITED, LONG_MAX)}
)

subscribe_rate = _object({"subscribeThrottlingRatePerConsumer": _or(UNLIMITED), "ratePeriodInSecond": _or(30)})

auto_subscription = _object({"allowAutoSubscriptionCreation": bodies.boolean})

delayed_delivery = _object({"tickTime": long, "active": bodies.boolean, "maxDeliveryDelayInMillis": long})

inactive_topics = _object(
    {
        "inactiveTopicDeleteMode": lambda value: (
            InactiveTopicDeleteMode.DELETE_WHEN_NO_SUBSCRIPTIONS.value
            if value is None
            else bodies.one_of(value, list(InactiveTopicDeleteMode), "inactiveTopicDeleteMode")
        ),
        "maxInactiveDurationSeconds": bodies.integer,
        "deleteWhileInactive": bodies.boolean,
    }
)


def persistence(value: Any) -> dict[str, Any]:
    if value is None:
        raise Refusal(400, "persistence policies should not be null")
    given = bodies.obj(value)
    read: dict[str, Any] = {
        key: bodies.integer(given.get(key), what=key)
        for key in ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum")
    }
    read["managedLedgerMaxMarkDeleteRate"] = bodies.number(
        given.get("managedLedgerMaxMarkDeleteRate"), "managedLedgerMaxMarkDeleteRate"
    )
    if given.get("managedLedgerStorageClassName") is not None:
        read["managedLedgerStorageClassName"] = bodies.text(given["managedLedgerStorageClassName"])
    return read


def auto_topic_creation(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    given = bodies.obj(value)
    read: dict[str, Any] = {"allowAutoTopicCreation": bodies.boolean(given.get("allowAutoTopicCreation"))}
    if given.get("topicType") is not None:
        read["topicType"] = bodies.text(given["topicType"])
    if given.get("defaultNumPartitions") is not None:
        read["defaultNumPartitions"] = bodies.integer(given["defaultNumPartitions"])
    return read


def entry_filters(value: Any) -> Any:
    """Raises Refusal 400 for every value: this broker has no entry filters, so no value can name an existing filter."""
    names = bodies.obj({} if value is None else value).get("entryFilterNames")
    if not names:
        raise Refusal(400, "entryFilterNames can't be empty. To remove entry filters use the remove method.")
    raise Refusal(400, f"Entry filter '{bodies.text(names).partition(',')[0]}' not found")


def backlog_quota(value: Any, namespace: str) -> dict[str, Any]:
    """Reads a backlog quota, in which `limit` is the older name of `limitSize`. Raises Refusal 400."""
    given = {} if value is None else bodies.obj(value)
    policy = given.get("policy")
    if policy not in list(BacklogAction):
        raise Refusal(
            400,
            f"Set namespace[{namespace}] backlog quota failed because the data validation failed. "
            "the attribute policy cannot be null",
        )
    size = given.get("limitSize")
    limit = long(given.get("limit") if size is None else size)
    return {
        "limit": limit,
        "limitSize": limit,
        "limitTime": bodies.integer(given.get("limitTime"), what="limitTime"),
        "policy": policy,
    }


# --- checks -----------------------------------------------------------------------------------------------------------


def no_check(value: Any) -> None:
    return


def not_negative(reason: str) -> Check:
    """Returns a check that raises Refusal 412 with this reason for a number below 0."""

    def check(value: Any) -> None:
        if value is not None and value < 0:
            raise Refusal(412, reason)

    return check


def check_retention(value: Any) -> None:
    if value is None:
        return
    time, size = value["retentionTimeInMinutes"], value["retentionSizeInMB"]
    fault = None
    if size < -1:
        fault = "size limit must be >= -1"
    elif time < -1:
        fault = "time limit must be >= -1"
    elif (time == 0) != (size == 0):
        fault = (
            "Setting a single time or size limit to 0 is invalid when one of the limits has a non-zero value. Use the "
            "value of -1 instead of 0 to ignore a specific limit. To disable retention both limits must be set to 0."
        )
    if fault is not None:
        raise Refusal(400, f"Invalid retention policy: {fault}")


def check_persistence(value: Any) -> None:
    ensemble, write, ack = (
        value[key] for key in ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum")
    )
    for name, number in (("Ensemble", ensemble), ("WriteQuorum", write), ("AckQuorum", ack)):
        if not 0 < number <= ENSEMBLE_MAX:
            raise Refusal(400, f"Bookkeeper-{name} must be <= {ENSEMBLE_MAX} and > 0.")
    if not ensemble >= write >= ack:
        raise Refusal(400, f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write}) >= AckQuorum ({ack})")


def check_auto_topic_creation(value: Any) -> None:
    if value is None or not value["allowAutoTopicCreation"]:
        return
    kind, partitions = value.get("topicType"), value.get("defaultNumPartitions")
    fault = None
    if kind not in ("partitioned", "non-partitioned"):
        fault = f"Unknown topic type [{kind or 'null'}]"
    elif kind == "partitioned" and partitions is None:
        fault = "[defaultNumPartitions] cannot be null when the type is partitioned."
    elif kind == "partitioned" and partitions < 1:
        fault = "[defaultNumPartitions] cannot be less than 1 for partition type."
    elif kind == "non-partitioned" and partitions is not None:
        fault = "[defaultNumPartitions] is not allowed to be set when the type is non-partition."
    if fault is not None:
        raise Refusal(412, f"Invalid configuration for autoTopicCreationOverride. the detail is {fault}")


def retention_exceeds_quota(retention: Mapping[str, Any] | None, quota: Mapping[str, Any] | None) -> bool:
    """Returns whether the retention is larger than the backlog quota in size and time; no other retention is allowed
    (NamespacesBase.checkBacklogQuota). Also returns True when one of the two is missing. A size or time of the
    retention of 0 or less is not compared."""
    if retention is None or quota is None:
        return True
    size, time = retention.get("retentionSizeInMB") or 0, retention.get("retentionTimeInMinutes") or 0
    if size > 0 and (quota.get("limitSize") or 0) >= size << 20:
        return False
    return not (time > 0 and (quota.get("limitTime") or 0) >= time * 60)
