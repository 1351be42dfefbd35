"""Options that set- commands of topics and of namespaces have in common."""

from magnetar.server.tools.admin.command_table import BYTES, FLAG, FLOAT, INTEGER, LONG, MILLIS, SECONDS, Option

RETENTION = (
    Option("-t --time", "keep acknowledged messages so long: 100m, 3h, 2d; -1 = for ever", SECONDS, required=True),
    Option("-s --size", "keep so much of them: 10M, 16G; -1 = everything", BYTES, required=True),
)
BACKLOG_QUOTA = (
    Option("-l --limit", "how large a backlog may become: 10M, 16G", BYTES),
    Option("-lt --limitTime", "how old a backlog may become: 100m, 3h, 2d", SECONDS),
    Option(
        "-p --policy",
        "what happens then: producer_request_hold, producer_exception, consumer_backlog_eviction",
        required=True,
    ),
    Option("-t --type", "which limit: destination_storage, message_age", default="destination_storage"),
)
BACKLOG_QUOTA_TYPE = (
    Option("-t --type", "which limit: destination_storage, message_age", default="destination_storage"),
)
PERSISTENCE = (
    Option("-e --bookkeeper-ensemble", "how many bookies a ledger uses", INTEGER, default=2),
    Option("-w --bookkeeper-write-quorum", "how many copies of an entry are written", INTEGER, default=2),
    Option("-a --bookkeeper-ack-quorum", "how many copies must be stored before the receipt", INTEGER, default=2),
    Option("-r --ml-mark-delete-max-rate", "how often a second a cursor is stored, 0 = always", FLOAT, default=0.0),
    Option("-c --ml-storage-class", "the storage class of the managed ledger"),
)
DISPATCH_RATE_OF_NAMESPACE_REPLICATOR = (
    Option("-md --msg-dispatch-rate", "messages in a period, -1 = any number", INTEGER, default=-1),
    Option("-bd --byte-dispatch-rate", "bytes in a period, -1 = any number", LONG, default=-1),
    Option("-dt --dispatch-rate-period", "the period in seconds", INTEGER, default=1),
)
DISPATCH_RATE = (
    *DISPATCH_RATE_OF_NAMESPACE_REPLICATOR,
    Option("-rp --relative-to-publish-rate", "add the rate at which messages are published", FLAG),
)
PUBLISH_RATE = (
    Option("-m --msg-publish-rate", "messages a second, -1 = any number", INTEGER, default=-1),
    Option("-b --byte-publish-rate", "bytes a second, -1 = any number", LONG, default=-1),
)
SUBSCRIBE_RATE = (
    Option("-sr --subscribe-rate", "how often a consumer may subscribe in a period, -1 = any", INTEGER, default=-1),
    Option("-st --subscribe-rate-period", "the period in seconds", INTEGER, default=30),
)
ENABLE_DISABLE = (
    Option("-e --enable", "turn it on", FLAG),
    Option("-d --disable", "turn it off", FLAG),
)
DELAYED_DELIVERY = (
    *ENABLE_DISABLE,
    Option("-t --time", "how exact delays are: 1s, 10s, 1m", MILLIS, default=1_000),
    Option("-md --maxDelay", "the longest delay that a producer may ask for: 1s, 1h; 0 = any", MILLIS, default=0),
)
INACTIVE_TOPICS = (
    Option("-e --enable-delete-while-inactive", "delete topics that nobody uses", FLAG),
    Option("-d --disable-delete-while-inactive", "keep them", FLAG),
    Option("-t --max-inactive-duration", "after so long: 100m, 3h, 2d", SECONDS, required=True),
    Option(
        "-m --delete-mode",
        "which topics: delete_when_no_subscriptions, delete_when_subscriptions_caught_up",
        required=True,
    ),
)
SUBSCRIPTION_TYPES = "Exclusive, Shared, Failover, Key_Shared"
