"""The bodies of REST calls that are more than one option's value.

Each function takes the values of a command line and returns what is sent as JSON. The names of the fields are those of
the classes in org.apache.pulsar.common.policies.data; the checks and their texts are those of pulsar-admin's commands
(CmdNamespaces, CmdTopics, CmdTopicPolicies). A value that is refused raises UsageError.
"""

from typing import Any

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.command_table import Values

AUTH_ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")
SUBSCRIPTION_TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")
QUOTA_TYPES = ("destination_storage", "message_age")
QUOTA_POLICIES = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")
DELETE_MODES = ("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up")
MEGABYTE = 1 << 20


def without_missing(body: dict[str, Any]) -> dict[str, Any]:
    """Leaves out fields without a value, as Jackson's NON_NULL does."""
    return {key: value for key, value in body.items() if value is not None}


def comma_list(text: str) -> list[str]:
    return text.split(",")


def enabled(values: Values) -> bool:
    """Returns whether --enable was given, when exactly one of --enable and --disable was."""
    if bool(values["enable"]) == bool(values["disable"]):
        raise UsageError("Need to specify either --enable or --disable")
    return bool(values["enable"])


def auth_actions(values: Values) -> list[str]:
    actions = [action for action in values["actions"] if action]
    for action in actions:
        if action not in AUTH_ACTIONS:
            raise UsageError(f"Illegal auth action '{action}'. Possible values: [{', '.join(AUTH_ACTIONS)}]")
    return sorted(set(actions), key=AUTH_ACTIONS.index)


def subscription_types(values: Values) -> list[str]:
    for kind in values["types"]:
        if kind not in SUBSCRIPTION_TYPES:
            possible = ", ".join(SUBSCRIPTION_TYPES)
            raise UsageError(f"Illegal subscription type {kind}. Possible values: [{possible}].")
    return list(dict.fromkeys(values["types"]))


def retention(values: Values) -> dict[str, Any]:
    seconds, size = values["time"], values["size"]
    return {
        "retentionTimeInMinutes": seconds if seconds == -1 else int(seconds / 60),
        "retentionSizeInMB": size if size == -1 else int(size / MEGABYTE),
    }


def quota_type(values: Values) -> str:
    kind = str(values["type"])
    if kind not in QUOTA_TYPES:
        raise UsageError(f"Invalid backlog quota type '{kind}'. Valid options are: [{', '.join(QUOTA_TYPES)}]")
    return kind


def any_backlog_quota(values: Values) -> dict[str, Any]:
    """Returns the quota with both limits, -1 for a limit that was not given."""
    quota_type(values)
    policy, size, seconds = values["policy"], values["limit"], values["limitTime"]
    if policy not in QUOTA_POLICIES:
        options = ", ".join(QUOTA_POLICIES)
        raise UsageError(f"Invalid retention policy type '{policy}'. Valid options are: [{options}]")
    size = -1 if size is None else size
    return {"limit": size, "limitSize": size, "limitTime": -1 if seconds is None else seconds, "policy": policy}


def backlog_quota(values: Values) -> dict[str, Any]:
    """Returns the quota with the one limit that its type needs."""
    kind = quota_type(values)
    if kind == "destination_storage":
        if values["limit"] is None:
            raise UsageError("Quota type of 'destination_storage' needs a size limit")
        return any_backlog_quota({**values, "limitTime": None})
    if values["limitTime"] is None:
        raise UsageError("Quota type of 'message_age' needs a time limit")
    return any_backlog_quota({**values, "limit": None})


def persistence(values: Values) -> dict[str, Any]:
    numbers = [values[f"bookkeeper-{name}"] for name in ("ensemble", "write-quorum", "ack-quorum")]
    if min(numbers) <= 0:
        raise UsageError(
            "[--bookkeeper-ensemble], [--bookkeeper-write-quorum] and [--bookkeeper-ack-quorum] must greater than 0."
        )
    if values["ml-mark-delete-max-rate"] < 0:
        raise UsageError("[--ml-mark-delete-max-rate] cannot less than 0.")
    body = {
        "bookkeeperEnsemble": numbers[0],
        "bookkeeperWriteQuorum": numbers[1],
        "bookkeeperAckQuorum": numbers[2],
        "managedLedgerMaxMarkDeleteRate": values["ml-mark-delete-max-rate"],
        "managedLedgerStorageClassName": values["ml-storage-class"],
    }
    return without_missing(body)


def dispatch_rate(values: Values) -> dict[str, Any]:
    return {
        "dispatchThrottlingRateInMsg": values["msg-dispatch-rate"],
        "dispatchThrottlingRateInByte": values["byte-dispatch-rate"],
        "relativeToPublishRate": values.get("relative-to-publish-rate", False),
        "ratePeriodInSecond": values["dispatch-rate-period"],
    }


def publish_rate(values: Values) -> dict[str, Any]:
    return {
        "publishThrottlingRateInMsg": values["msg-publish-rate"],
        "publishThrottlingRateInByte": values["byte-publish-rate"],
    }


def subscribe_rate(values: Values) -> dict[str, Any]:
    return {
        "subscribeThrottlingRatePerConsumer": values["subscribe-rate"],
        "ratePeriodInSecond": values["subscribe-rate-period"],
    }


def delayed_delivery(values: Values) -> dict[str, Any]:
    active = enabled(values)
    return {"tickTime": values["time"], "active": active, "maxDeliveryDelayInMillis": values["maxDelay"]}


def inactive_topics(values: Values) -> dict[str, Any]:
    enable = bool(values["enable-delete-while-inactive"])
    if enable == bool(values["disable-delete-while-inactive"]):
        raise UsageError("Need to specify either enable-delete-while-inactive or disable-delete-while-inactive")
    if values["delete-mode"] not in DELETE_MODES:
        raise UsageError(f"delete mode can only be set to {DELETE_MODES[0]} or {DELETE_MODES[1]}")
    return {
        "inactiveTopicDeleteMode": values["delete-mode"],
        "maxInactiveDurationSeconds": values["max-inactive-duration"],
        "deleteWhileInactive": enable,
    }


def auto_topic_creation(values: Values) -> dict[str, Any]:
    enable, kind, partitions = enabled(values), values["type"].lower().strip(), values["num-partitions"]
    if enable and kind not in ("partitioned", "non-partitioned"):
        raise UsageError("Must specify type of topic to be created. Possible values: (partitioned, non-partitioned)")
    if enable and kind == "partitioned" and (partitions is None or partitions <= 0):
        raise UsageError("Must specify num-partitions or num-partitions > 0 for partitioned topic type.")
    body = {"allowAutoTopicCreation": enable, "topicType": kind, "defaultNumPartitions": partitions}
    return without_missing(body)


def auto_subscription_creation(values: Values) -> dict[str, Any]:
    return {"allowAutoSubscriptionCreation": values["enable"]}


def entry_filters(values: Values) -> dict[str, Any]:
    return {"entryFilterNames": values["entry-filters-name"]}


def properties(values: Values) -> dict[str, str]:
    return dict(values["property"] or {})


def metadata(values: Values) -> dict[str, str]:
    return dict(values["metadata"] or {})
