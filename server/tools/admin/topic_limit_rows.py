"""The policies of topics that limit numbers and rates. `topicPolicies` and `topics` have commands for each."""

from magnetar.server.tools.admin.command_table import BYTES, INTEGER, Option
from magnetar.server.tools.admin.policy_rows import APPLIED, Policy
from magnetar.server.tools.admin.shared_policies import (
    DISPATCH_RATE_POLICY,
    PUBLISH_RATE_POLICY,
    REPLICATOR_DISPATCH_RATE,
    SUBSCRIBE_RATE_POLICY,
)

_UNACKED = (Option("-m --maxNum", "how many; 0 = any number", INTEGER, required=True),)
UNACKED_PER_CONSUMER = Policy(
    "max-unacked-messages-per-consumer",
    "maxUnackedMessagesOnConsumer",
    "how many messages a consumer may have without acknowledging them",
    _UNACKED,
    "maxNum",
    "-m 1000",
    APPLIED,
)
UNACKED_PER_SUBSCRIPTION = Policy(
    "max-unacked-messages-per-subscription",
    "maxUnackedMessagesOnSubscription",
    "how many messages a subscription may have delivered that are not acknowledged",
    _UNACKED,
    "maxNum",
    "-m 10000",
    APPLIED,
)
MAX_PRODUCERS = Policy(
    "max-producers",
    "maxProducers",
    "how many producers a topic may have",
    (Option("-p --max-producers", "how many; 0 = any number", INTEGER, required=True),),
    "max-producers",
    "-p 10",
    APPLIED,
)
_MAX_CONSUMERS = Policy(
    "max-consumers",
    "maxConsumers",
    "how many consumers a topic may have",
    (Option("-c --max-consumers", "how many; 0 = any number", INTEGER, required=True),),
    "max-consumers",
    "-c 10",
    APPLIED,
)
_MAX_CONSUMERS_PER_SUBSCRIPTION = Policy(
    "max-consumers-per-subscription",
    "maxConsumersPerSubscription",
    "how many consumers a subscription may have",
    (Option("-c --max-consumers-per-subscription", "how many; 0 = any number", INTEGER, required=True),),
    "max-consumers-per-subscription",
    "-c 10",
)
_MAX_MESSAGE_SIZE = Policy(
    "max-message-size",
    "maxMessageSize",
    "how many bytes a message may have",
    (Option("-m --max-message-size", "bytes; 0 = as many as the broker allows", INTEGER, required=True),),
    "max-message-size",
    "-m 1048576",
)
_COMPACTION_THRESHOLD = Policy(
    "compaction-threshold",
    "compactionThreshold",
    "the size of a backlog at which a topic is compacted",
    (Option("-t --threshold", "as 10M or 16G; 0 = never", BYTES, required=True),),
    "threshold",
    "-t 100M",
    APPLIED,
)
LIMITS = (
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    MAX_PRODUCERS,
    _MAX_CONSUMERS,
    _MAX_CONSUMERS_PER_SUBSCRIPTION,
    _MAX_MESSAGE_SIZE,
    _COMPACTION_THRESHOLD,
    PUBLISH_RATE_POLICY,
    SUBSCRIBE_RATE_POLICY._replace(applied=APPLIED),
    DISPATCH_RATE_POLICY._replace(applied=APPLIED),
    REPLICATOR_DISPATCH_RATE._replace(applied=APPLIED),
)
"""The limits whose commands are the same in both groups."""
