"""Decides why a subscription gets nothing, by a snapshot of it. The reasons come in the order in which they have to be
removed: a reason behind another one may hold messages back only when the first one is gone.

Three claims hold for every answer, and the tests hold them against random histories. While a reason holds everything
back, no message is delivered. When no reason holds anything back, a message that is published now is delivered at once.
And whoever removes the reasons, one after the other, gets every message.

Sources of the conditions: the dispatchers of `server/topics/subscriptions`.
"""

from collections.abc import Iterator

from magnetar.server.why.consumer_rules import consumer_reasons
from magnetar.server.why.key_wait_rules import key_reasons
from magnetar.server.why.reasons import LISTED_MAX, Holds, Reason, duration, entries, listed, moment
from magnetar.server.why.refusal_rules import refused_reason
from magnetar.server.why.subscription_snapshot import BacklogSnapshot, SubscriptionSnapshot, ThrottleSnapshot
from pulsar_proto.counted import counted

SLOW_READ_SECONDS = 1.0
"""A read of the log that takes longer than this is a reason."""


def reasons_of(subscription: SubscriptionSnapshot) -> Iterator[Reason]:
    """Yields the reasons. With thousands of consumers or keys the caller lets other tasks run in between."""
    yield from _whole_subscription(subscription)
    yield from consumer_reasons(subscription)
    yield from _log(subscription)
    yield from _transaction(subscription)
    yield from _limits(subscription)
    yield from key_reasons(subscription)
    yield from _some_messages(subscription)
    yield from _notes(subscription)


def backlog_summary(subscription: SubscriptionSnapshot) -> str:
    """Returns the backlog in one line; empty for a subscription that has none, or has nothing stored."""
    backlog, oldest = subscription.backlog, subscription.oldest
    if not subscription.is_stored or not backlog.entries:
        return ""
    size = entries(backlog.entries)
    if oldest is not None and oldest.messages is not None:
        about = "" if oldest.messages_are_exact else "about "
        size += f" ({about}{counted(oldest.messages, 'message')})"
    if oldest is not None and oldest.published_ms is not None:
        size += f", the oldest {duration((subscription.now_ms - oldest.published_ms) / 1000)} old"
    parts = (
        (backlog.delivered, "delivered and not acknowledged"),
        (backlog.again, "waiting to be sent again"),
        (backlog.waiting_for_chunks, "waiting for the consumer of their message"),
        (backlog.delayed, "delayed"),
        (backlog.not_read, "not read yet"),
    )
    return f"{size}: " + ", ".join(f"{count} {what}" for count, what in parts if count)


# --- what holds everything back ---------------------------------------------------------------------------------------


def _whole_subscription(subscription: SubscriptionSnapshot) -> Iterator[Reason]:
    if subscription.is_ending:
        yield Reason(
            "SUBSCRIPTION_ENDING",
            Holds.EVERYTHING,
            "The subscription is being deleted or its topic is being closed; clients connect again by themselves.",
        )
    if subscription.is_moving:
        yield Reason(
            "SUBSCRIPTION_MOVING",
            Holds.EVERYTHING,
            "The subscription is being moved by a seek; its consumers are let in when the new position is stored.",
        )
    if not subscription.consumers:
        ago_s = (subscription.now_ms - subscription.last_active_ms) / 1000
        since = f"; it was last used {duration(ago_s)} ago" if subscription.last_active_ms else ""
        yield Reason(
            "NO_CONSUMER",
            Holds.EVERYTHING,
            f"No consumer is connected{since}.",
            {"lastActiveMs": subscription.last_active_ms},
        )


def _log(subscription: SubscriptionSnapshot) -> Iterator[Reason]:
    backlog, read, retry_s = subscription.backlog, subscription.read, subscription.retry_seconds
    if subscription.failure and (read is not None or retry_s is not None):
        again = "is being tried again" if retry_s is None else f"is tried again in {duration(retry_s)}"
        yield Reason(
            "READ_FAILS",
            Holds.EVERYTHING,
            f"The log cannot be read on from {backlog.read_position}: {subscription.failure}. The read {again}.",
            {"position": str(backlog.read_position), "error": subscription.failure, "retrySeconds": retry_s},
        )
    elif read is not None and read.for_seconds >= SLOW_READ_SECONDS:
        yield Reason(
            "READ_WAITS",
            Holds.EVERYTHING,
            f"A read of the log from {read.position} on has waited for the bookies for {duration(read.for_seconds)}.",
            {"position": str(read.position), "seconds": read.for_seconds},
        )
    elif subscription.oldest is not None and subscription.oldest.failure:
        is_next = backlog.read_position == backlog.first_unacked and backlog.not_read > 0
        yield Reason(
            "OLDEST_UNREADABLE",
            Holds.EVERYTHING if is_next else Holds.NOTHING,
            f"The first entry that is not acknowledged, {backlog.first_unacked}, cannot be read: "
            f"{subscription.oldest.failure}.",
            {"position": str(backlog.first_unacked), "error": subscription.oldest.failure},
        )


def _transaction(subscription: SubscriptionSnapshot) -> Iterator[Reason]:
    open_ = subscription.transaction
    if open_ is None:
        return
    others = f" {counted(open_.others, 'other transaction')} stand behind it." if open_.others else ""
    yield Reason(
        "TRANSACTION_OPEN",
        Holds.EVERYTHING if subscription.backlog.read_position >= open_.first else Holds.SOME,
        f"Transaction {open_.txn_id} has been open for {duration((subscription.now_ms - open_.since_ms) / 1000)} and "
        f"holds {entries(open_.held_back)} back, from its first message {open_.first} on.{others} Its coordinator "
        "tells whose it is and when it times out.",
        {
            "transaction": open_.txn_id,
            "position": str(open_.first),
            "sinceMs": open_.since_ms,
            "otherTransactions": open_.others,
            "entries": open_.held_back,
        },
    )


def _limits(subscription: SubscriptionSnapshot) -> Iterator[Reason]:
    if subscription.switch_seconds is not None:
        yield Reason(
            "CONSUMER_SWITCH",
            Holds.EVERYTHING,
            f"Consumer {_active(subscription)} has just become active and gets its first message in "
            f"{duration(subscription.switch_seconds)} (activeConsumerFailoverDelayTimeMillis).",
            {"consumer": _active(subscription), "seconds": subscription.switch_seconds},
        )
    if subscription.blocked:
        yield Reason(
            "SUBSCRIPTION_UNACKED_LIMIT",
            Holds.EVERYTHING,
            f"The consumers together hold {subscription.unacked} unacknowledged messages, and the limit of the "
            f"subscription is {subscription.unacked_max} (maxUnackedMessagesPerSubscription). More come below half of "
            "it.",
            {"unackedMessages": subscription.unacked, "unackedMessagesMax": subscription.unacked_max},
        )
    for throttle in subscription.throttles:
        if throttle.wait_seconds > 0 or 0 in (
            throttle.messages if throttle.messages_per_second else None,
            throttle.bytes if throttle.bytes_per_second else None,
        ):
            yield _rate(throttle)
    if subscription.delays_are_full:
        yield Reason(
            "TOO_MANY_DELAYED",
            Holds.EVERYTHING,
            "As many delayed messages wait as the topic remembers; nothing is read before one of them is due.",
            {"nextDueMs": subscription.backlog.next_due_ms},
        )


def _active(subscription: SubscriptionSnapshot) -> str | None:
    return next((each.name for each in subscription.consumers if each.is_active), None)


def _rate(throttle: ThrottleSnapshot) -> Reason:
    whose, code = ("topic's", "TOPIC") if throttle.is_of_topic else ("subscription's", "SUBSCRIPTION")
    limits = []
    if throttle.messages_per_second:
        messages = counted(throttle.messages_per_second, "message a second", "messages a second", "g")
        limits.append(f"{messages} (balance {throttle.messages:.0f})")
    if throttle.bytes_per_second:
        size = counted(throttle.bytes_per_second, "byte a second", "bytes a second", "g")
        limits.append(f"{size} (balance {throttle.bytes:.0f})")
    return Reason(
        f"{code}_DISPATCH_RATE",
        Holds.EVERYTHING,
        f"The {whose} dispatch rate is used up: {' and '.join(limits)}. The next message may be sent in "
        f"{duration(throttle.wait_seconds)}.",
        {
            "messagesPerSecond": throttle.messages_per_second,
            "bytesPerSecond": throttle.bytes_per_second,
            "balanceMessages": throttle.messages,
            "balanceBytes": throttle.bytes,
            "waitSeconds": throttle.wait_seconds,
        },
    )


# --- what holds some messages back ------------------------------------------------------------------------------------


def _some_messages(subscription: SubscriptionSnapshot) -> Iterator[Reason]:
    backlog = subscription.backlog
    if subscription.chunk_waits:
        told = listed(subscription.chunk_waits, lambda each: f"{each[0]} ({each[1]})")
        yield Reason(
            "CHUNKS_WAIT",
            Holds.SOME,
            f"{entries(backlog.waiting_for_chunks)} are chunks of messages whose other chunks went to a consumer that "
            f"takes nothing now: {told}.",
            {"consumers": [{"name": name, "entries": count} for name, count in subscription.chunk_waits[:LISTED_MAX]]},
        )
    if backlog.delayed:
        yield _delayed(subscription)
    if backlog.delivered and not backlog.waiting and subscription.switch_seconds is None:
        yield _delivered(subscription)


def _delayed(subscription: SubscriptionSnapshot) -> Reason:
    backlog = subscription.backlog
    due = ""
    if backlog.next_due_ms is not None:
        left_s = (backlog.next_due_ms - subscription.now_ms) / 1000
        due = f"; the next one is due in {duration(left_s)}, at {moment(backlog.next_due_ms)}"
    return Reason(
        "DELAYED",
        Holds.SOME,
        f"{backlog.delayed} of {entries(backlog.entries)} of the backlog {'is' if backlog.delayed == 1 else 'are'} "
        f"delayed{due}.",
        {"delayed": backlog.delayed, "backlog": backlog.entries, "nextDueMs": backlog.next_due_ms},
    )


def _delivered(subscription: SubscriptionSnapshot) -> Reason:
    backlog = subscription.backlog
    were, are = ("was", "is") if backlog.delivered == 1 else ("were", "are")
    what = "delivered or compacted away" if subscription.log_is_compacted else "delivered"
    return Reason(
        "DELIVERED_NOT_ACKNOWLEDGED",
        Holds.SOME,
        f"{backlog.delivered} of {entries(backlog.entries)} of the backlog {were} {what} and {are} not "
        "acknowledged. A message comes again only when the consumer asks for that or leaves.",
        {
            "delivered": backlog.delivered,
            "backlog": backlog.entries,
            "deliveredMessages": backlog.delivered_messages,
        },
    )


# --- what explains the rest -------------------------------------------------------------------------------------------


def _notes(subscription: SubscriptionSnapshot) -> Iterator[Reason]:
    backlog = subscription.backlog
    active, waiting = _active(subscription), [each.name for each in subscription.consumers if not each.is_active]
    if active is not None and waiting:
        yield Reason(
            "ANOTHER_CONSUMER_ACTIVE",
            Holds.NOTHING,
            f"Consumer {active} is active and gets every message; {listed(waiting)} would follow it.",
            {"active": active, "waiting": waiting[:LISTED_MAX]},
        )
    if backlog.in_holes:
        yield _holes(backlog)
    if subscription.is_stored and not backlog.entries:
        end = " The topic is terminated, so no message will follow." if subscription.is_terminated else ""
        yield Reason(
            "NOTHING_TO_READ", Holds.NOTHING, f"Every message of the topic is acknowledged: there is no backlog.{end}"
        )
    if subscription.dropped:
        yield Reason(
            "DROPPED",
            Holds.NOTHING,
            f"{counted(subscription.dropped, 'message')} of this non-persistent topic were dropped, because no "
            "consumer took them at once.",
            {"dropped": subscription.dropped},
        )
    refused = subscription.refused
    newest_ms = max((each.connected_ms for each in subscription.consumers), default=0)
    if refused is not None and refused.time_ms > newest_ms:
        yield refused_reason("CONSUMER_REFUSED", "consumer", refused, subscription.now_ms)


def _holes(backlog: BacklogSnapshot) -> Reason:
    return Reason(
        "HOLES",
        Holds.NOTHING,
        f"{entries(backlog.in_holes)} are not acknowledged although later ones are, so the mark-delete position stays "
        f"at {backlog.mark_delete}; the first of them is {backlog.first_unacked}.",
        {
            "entries": backlog.in_holes,
            "ranges": backlog.holes,
            "first": str(backlog.first_unacked),
            "markDelete": str(backlog.mark_delete),
        },
    )
