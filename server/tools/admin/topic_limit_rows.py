"""The policies of topics that limit numbers and rates. `topicPolicies` and `topics` have commands for each."""

from magnetar.server.tools.admin.body_rules import dispatch_rate, publish_rate, subscribe_rate
from magnetar.server.tools.admin.command_table import BYTES, INTEGER, Option
from magnetar.server.tools.admin.policy_rows import APPLIED, Policy
from magnetar.server.tools.admin.shared_policy_options import DISPATCH_RATE, PUBLISH_RATE, SUBSCRIBE_RATE

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
_PUBLISH_RATE = Policy(
    "publish-rate", "publishRate", "how fast may be published", PUBLISH_RATE, publish_rate, "-m 1000 -b 10485760"
)
_SUBSCRIBE_RATE = Policy(
    "subscribe-rate",
    "subscribeRate",
    "how often consumers may subscribe",
    SUBSCRIBE_RATE,
    subscribe_rate,
    "-sr 10 -st 30",
    APPLIED,
)
_DISPATCH_RATE = Policy(
    "dispatch-rate",
    "dispatchRate",
    "how fast a topic's messages are delivered",
    DISPATCH_RATE,
    dispatch_rate,
    "-md 1000 -dt 1",
    APPLIED,
)
SUBSCRIPTION_DISPATCH_RATE = Policy(
    "subscription-dispatch-rate",
    "subscriptionDispatchRate",
    "how fast messages are delivered to a subscription",
    DISPATCH_RATE,
    dispatch_rate,
    "-md 1000 -dt 1",
    APPLIED,
)
_REPLICATOR_DISPATCH_RATE = Policy(
    "replicator-dispatch-rate",
    "replicatorDispatchRate",
    "how fast messages are sent to another cluster",
    DISPATCH_RATE,
    dispatch_rate,
    "-md 1000 -dt 1",
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
    _PUBLISH_RATE,
    _SUBSCRIBE_RATE,
    _DISPATCH_RATE,
    _REPLICATOR_DISPATCH_RATE,
)
"""The limits whose commands are the same in both groups."""
