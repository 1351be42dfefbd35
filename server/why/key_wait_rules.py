"""Decides which keys of a Key_Shared subscription wait, and for whom. Sources: PIP-379, `key_order_rules`."""

from collections.abc import Iterator

from magnetar.server.why.reasons import LISTED_MAX, Holds, Reason, duration, entries, listed
from magnetar.server.why.subscription_snapshot import KeyWait, SubscriptionSnapshot


def key_reasons(subscription: SubscriptionSnapshot) -> Iterator[Reason]:
    """Yields what keeps keys waiting, and then the limit of waiting entries, which is reached because of that."""
    least = "" if subscription.key_waits_are_all else "At least "
    drains = [each for each in subscription.key_waits if each.holder is not None]
    orphans = [each for each in subscription.key_waits if each.holder is None and each.owner is None]
    idle = [each for each in subscription.key_waits if each.holder is None and each.owner and not each.owner_takes]
    if drains:
        drains.sort(key=lambda each: -each.for_seconds)
        told = listed(drains, _held)
        yield Reason(
            "KEY_HELD_BY_ANOTHER",
            Holds.SOME,
            f"{least}{entries(sum(each.entries for each in drains))} wait until another consumer acknowledges what it "
            f"holds of their keys: {told}.",
            {
                "hashes": [
                    {
                        "hash": each.hash,
                        "entriesWaiting": each.entries,
                        "holder": each.holder,
                        "holderUnacked": each.held,
                        "nextConsumer": each.owner,
                        "seconds": each.for_seconds,
                    }
                    for each in drains[:LISTED_MAX]
                ]
            },
        )
    if idle:
        counts: dict[str, int] = {}
        for each in idle:
            counts[each.owner or ""] = counts.get(each.owner or "", 0) + each.entries
        told = listed(list(counts.items()), lambda each: f"{each[0]} ({each[1]})")
        yield Reason(
            "KEY_CONSUMER_TAKES_NOTHING",
            Holds.SOME,
            f"{least}{entries(sum(counts.values()))} wait for the consumer of their keys, which takes nothing now: "
            f"{told}.",
            {"consumers": [{"name": name, "entries": count} for name, count in list(counts.items())[:LISTED_MAX]]},
        )
    if subscription.hashes_without_consumer and subscription.consumers:
        hashes = [each.hash for each in orphans]
        waiting = sum(each.entries for each in orphans)
        yield Reason(
            "KEY_WITHOUT_CONSUMER",
            Holds.SOME,
            f"No connected consumer has chosen {subscription.hashes_without_consumer} of the hashes of keys; "
            f"{entries(waiting)} with such keys wait.",
            {"hashesWithoutConsumer": subscription.hashes_without_consumer, "entries": waiting}
            | ({"hashes": hashes[:LISTED_MAX]} if hashes else {}),
        )
    if drains or idle or orphans:
        yield from _look_ahead(subscription)  # otherwise the entries that wait are being sent


def _held(wait: KeyWait) -> str:
    return f"hash {wait.hash} for {wait.holder} ({wait.held} unacknowledged, {duration(wait.for_seconds)})"


def _look_ahead(subscription: SubscriptionSnapshot) -> Iterator[Reason]:
    ahead_max = subscription.look_ahead_max
    if ahead_max is not None and subscription.consumers and subscription.look_ahead >= ahead_max:
        yield Reason(
            "LOOK_AHEAD_LIMIT",
            Holds.EVERYTHING,
            f"{entries(subscription.look_ahead)} wait for the consumers of their keys, which is as many as may wait "
            f"({ahead_max}); nothing further is read before some of them are sent.",
            {"waiting": subscription.look_ahead, "waitingMax": ahead_max},
        )
