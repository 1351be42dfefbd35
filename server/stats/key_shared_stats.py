"""The stats that only a Key_Shared subscription and its consumers have: which hash ranges each consumer owns, and for
which consumers' acknowledgements other consumers wait.

Field names are those of SubscriptionStatsImpl, ConsumerStatsImpl and DrainingHashImpl (PIP-379).
"""

from magnetar.server.stats.traffic_stats import Json
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.dispatcher import Dispatcher
from magnetar.server.topics.subscriptions.key_shared_dispatcher import KeySharedDispatcher

DRAINING_SHOWN_MAX = 1_000
"""How many draining hashes the stats of one consumer list at most."""


def of_subscription(dispatcher: Dispatcher | None) -> Json:
    """Returns the fields that Key_Shared adds to the subscription's stats. Returns no fields for a dispatcher of
    another type."""
    if not isinstance(dispatcher, KeySharedDispatcher):
        return {}
    order = dispatcher.order
    draining = [each for held in order.draining().values() for each in held]
    return {
        "keySharedMode": "STICKY" if dispatcher.policy.is_sticky else "AUTO_SPLIT",
        "allowOutOfOrderDelivery": dispatcher.policy.allows_disorder,
        "drainingHashesCount": len(draining),
        "drainingHashesClearedTotal": order.cleared_total,
        "drainingHashesUnackedMessages": sum(each.entries for each in draining),
    }


def of_consumer(dispatcher: Dispatcher | None, consumer: Consumer) -> Json:
    """Returns the fields that Key_Shared adds to the stats of one of the dispatcher's consumers."""
    if not isinstance(dispatcher, KeySharedDispatcher):
        return {}
    draining = dispatcher.order.draining().get(consumer, [])
    ranges = dispatcher.ranges_of(consumer)
    return {
        "drainingHashesCount": len(draining),
        "drainingHashesClearedTotal": dispatcher.order.cleared[consumer],
        "drainingHashesUnackedMessages": sum(each.entries for each in draining),
        "drainingHashes": [
            {"hash": each.slot, "unackMsgs": each.entries, "blockedAttempts": each.blocked}
            for each in draining[:DRAINING_SHOWN_MAX]
        ],
        "keyHashRanges": [f"[{first}, {last}]" for first, last in ranges],
        "keyHashRangeArrays": [[first, last] for first, last in ranges],
    }
