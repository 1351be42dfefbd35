"""Decides why the consumers of a subscription take no messages."""

from collections.abc import Iterator

from magnetar.server.why.reasons import LISTED_MAX, Holds, Reason, listed
from magnetar.server.why.subscription_snapshot import ConsumerSnapshot, SubscriptionSnapshot
from pulsar_proto.counted import counted

ALL_WAIT = ("Exclusive", "Failover", "Shared")
"""Types whose messages wait only while no consumer takes any. For Key_Shared each consumer holds back its keys."""


def consumer_reasons(subscription: SubscriptionSnapshot) -> Iterator[Reason]:
    """Yields why consumers take nothing: of the active one, or of all of a type that shares messages."""
    candidates = subscription.consumers
    if subscription.kind in ("Exclusive", "Failover"):
        candidates = tuple(each for each in candidates if each.is_active)
    idle = [each for each in candidates if not each.takes]
    if not idle:
        return
    if len(idle) == len(candidates):
        holds = Holds.EVERYTHING
    else:
        holds = Holds.NOTHING if subscription.kind in ALL_WAIT else Holds.SOME
    blocked = [each for each in idle if each.blocked]
    without_permits = [each for each in idle if not each.blocked and each.permits <= 0]
    deaf = [each for each in idle if not each.blocked and each.permits > 0]
    if blocked:
        yield _blocked(blocked, holds)
    if without_permits:
        yield _without_permits(without_permits, holds)
    if deaf:
        yield _deaf(deaf, holds)


def _blocked(consumers: list[ConsumerSnapshot], holds: Holds) -> Reason:
    told = listed(consumers, lambda each: f"{each.name} {each.unacked} of {each.unacked_max}")
    return Reason(
        "CONSUMER_UNACKED_LIMIT",
        holds,
        f"{counted(len(consumers), 'consumer')} reached the limit of unacknowledged messages "
        f"(maxUnackedMessagesPerConsumer): {told}. More come when half of them are acknowledged.",
        {"consumers": _figures(consumers)},
    )


def _without_permits(consumers: list[ConsumerSnapshot], holds: Holds) -> Reason:
    told = listed(consumers, lambda each: f"{each.name} ({each.permits})")
    negative = any(each.permits < 0 for each in consumers)
    why = " A negative number comes from batches that held more than was asked for." if negative else ""
    asks = "asks" if len(consumers) == 1 else "ask"
    return Reason(
        "NO_PERMITS",
        holds,
        f"{counted(len(consumers), 'consumer')} {asks} for no messages, because the receiver queue is full or the "
        f"application does not receive. Permits: {told}.{why}",
        {"consumers": _figures(consumers)},
    )


def _deaf(consumers: list[ConsumerSnapshot], holds: Holds) -> Reason:
    names = listed(consumers, lambda each: f"{each.name} at {each.address}")
    return Reason(
        "CONNECTION_NOT_READ",
        holds,
        f"{counted(len(consumers), 'consumer')} with permits cannot be sent anything, because the client does not read "
        f"its connection: {names}.",
        {"consumers": _figures(consumers)},
    )


def _figures(consumers: list[ConsumerSnapshot]) -> list[dict[str, object]]:
    return [
        {
            "name": each.name,
            "address": each.address,
            "permits": each.permits,
            "unackedMessages": each.unacked,
            "unackedMessagesMax": each.unacked_max,
        }
        for each in consumers[:LISTED_MAX]
    ]
