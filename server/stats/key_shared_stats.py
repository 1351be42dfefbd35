"""What stats say of a Key_Shared subscription and its consumers beyond the others: whose keys are whose, and who makes
others wait.

Field names are those of SubscriptionStatsImpl, ConsumerStatsImpl and DrainingHashImpl (PIP-379).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.consumer import Consumer
    from magnetar.server.topics.subscriptions.key_shared_dispatcher import KeySharedDispatcher

DRAINING_SHOWN_MAX = 1_000
"""Draining hashes that stats list of a consumer."""

Json = dict[str, object]


def of_subscription(dispatcher: "KeySharedDispatcher") -> Json:
    order = dispatcher.order
    draining = [each for held in order.draining().values() for each in held]
    return {
        "keySharedMode": "STICKY" if dispatcher.policy.is_sticky else "AUTO_SPLIT",
        "allowOutOfOrderDelivery": dispatcher.policy.allows_disorder,
        "drainingHashesCount": len(draining),
        "drainingHashesClearedTotal": order.cleared_total,
        "drainingHashesUnackedMessages": sum(each.entries for each in draining),
    }


def of_consumer(dispatcher: "KeySharedDispatcher", consumer: "Consumer") -> Json:
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
