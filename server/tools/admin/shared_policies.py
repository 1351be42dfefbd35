"""The policies that topics and namespaces have in common. The commands of topics add to most of them --applied."""

from magnetar.server.tools.admin.body_rules import (
    auto_subscription_creation,
    delayed_delivery,
    dispatch_rate,
    entry_filters,
    inactive_topics,
    persistence,
    publish_rate,
    retention,
    subscribe_rate,
    subscription_types,
)
from magnetar.server.tools.admin.command_table import COMMAS, FLAG, INTEGER, Option
from magnetar.server.tools.admin.field_orders import OFFLOAD_POLICIES
from magnetar.server.tools.admin.offload_body import offload_policies
from magnetar.server.tools.admin.policy_rows import Policy
from magnetar.server.tools.admin.shared_policy_options import (
    DELAYED_DELIVERY,
    DISPATCH_RATE,
    INACTIVE_TOPICS,
    PERSISTENCE,
    PUBLISH_RATE,
    RETENTION,
    SUBSCRIBE_RATE,
    SUBSCRIPTION_TYPES,
)

SUBSCRIPTION_TYPES_ENABLED = Policy(
    "subscription-types-enabled",
    "subscriptionTypesEnabled",
    "which types of subscriptions may be used",
    (Option("-t --types", f"comma separated: {SUBSCRIPTION_TYPES}", COMMAS, required=True),),
    subscription_types,
    "-t Shared,Failover",
)
RETENTION_POLICY = Policy(
    "retention",
    "retention",
    "how long and how many acknowledged messages are kept",
    RETENTION,
    retention,
    "-t 3h -s 10G",
)
PERSISTENCE_POLICY = Policy(
    "persistence", "persistence", "how many copies of messages are stored", PERSISTENCE, persistence, "-e 3 -w 3 -a 2"
)
SNAPSHOT_INTERVAL = Policy(
    "deduplication-snapshot-interval",
    "deduplicationSnapshotInterval",
    "how often the state of deduplication is stored, in seconds",
    (Option("-i --interval", "seconds", INTEGER, required=True),),
    "interval",
    "-i 120",
)
DELAYED_DELIVERY_POLICY = Policy(
    "delayed-delivery",
    "delayedDelivery",
    "whether messages may be delayed",
    DELAYED_DELIVERY,
    delayed_delivery,
    "--enable -t 1s",
)
INACTIVE_TOPIC_POLICIES = Policy(
    "inactive-topic-policies",
    "inactiveTopicPolicies",
    "when topics that nobody uses are deleted",
    INACTIVE_TOPICS,
    inactive_topics,
    "-e -t 7d -m delete_when_no_subscriptions",
)
AUTO_SUBSCRIPTION_CREATION = Policy(
    "auto-subscription-creation",
    "autoSubscriptionCreation",
    "whether subscribing creates a subscription",
    (Option("-e --enable", "let it; without this option it does not", FLAG),),
    auto_subscription_creation,
    "--enable",
)
ENTRY_FILTERS = Policy(
    "entry-filters",
    "entryFilters",
    "which entry filters decide about delivery",
    (Option("-efn --entry-filters-name", "names of filters, comma separated", required=True),),
    entry_filters,
    "-efn my-filter",
)
PAUSE_ON_ACK_STATE = Policy(
    "dispatcher-pause-on-ack-state-persistent",
    "dispatcherPauseOnAckStatePersistent",
    "whether delivery waits while the state of acknowledgements cannot be stored",
)
OFFLOAD = Policy(
    "offload-policies",
    "offloadPolicies",
    "when and where ledgers are offloaded",
    (),
    offload_policies,
    "-d aws-s3 -r eu-west-1 -b bucket",
    order=OFFLOAD_POLICIES,
)
DISPATCH_RATE_POLICY = Policy(
    "dispatch-rate",
    "dispatchRate",
    "how fast a topic's messages are delivered",
    DISPATCH_RATE,
    dispatch_rate,
    "-md 1000 -dt 1",
)
SUBSCRIPTION_DISPATCH_RATE = DISPATCH_RATE_POLICY._replace(
    name="subscription-dispatch-rate",
    path="subscriptionDispatchRate",
    what="how fast messages are delivered to a subscription",
)
REPLICATOR_DISPATCH_RATE = DISPATCH_RATE_POLICY._replace(
    name="replicator-dispatch-rate",
    path="replicatorDispatchRate",
    what="how fast messages are sent to another cluster",
)
PUBLISH_RATE_POLICY = Policy(
    "publish-rate", "publishRate", "how fast may be published", PUBLISH_RATE, publish_rate, "-m 1000 -b 10485760"
)
SUBSCRIBE_RATE_POLICY = Policy(
    "subscribe-rate",
    "subscribeRate",
    "how often consumers may subscribe",
    SUBSCRIBE_RATE,
    subscribe_rate,
    "-sr 10 -st 30",
)
