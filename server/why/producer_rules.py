"""Decides why the producers of a topic are not answered or not admitted, by a snapshot of them. The reasons come in the
order in which they have to be removed.

Sources of the conditions: `server/topics/publishing`, `storage/managed/appender.py`.
"""

from collections.abc import Iterator

from magnetar.server.why.producer_snapshot import ProducersSnapshot, PublishRateSnapshot, QuotaSnapshot
from magnetar.server.why.reasons import LISTED_MAX, Holds, Reason, duration, listed, moment
from magnetar.server.why.refusal_rules import refused_reason
from pulsar_proto.counted import counted

SLOW_APPEND_SECONDS = 1.0
"""SENDs that wait longer than this without any confirmation are a reason."""

QUOTA_NAMES = {"destination_storage": "bytes", "message_age": "seconds"}
"""The units of the limits of the two kinds of backlog quotas."""


def producer_reasons(producers: ProducersSnapshot) -> list[Reason]:
    return [
        *_storage(producers),
        *_admission(producers),
        *(_quota(each, Holds.SOME if producers.producers else Holds.EVERYTHING) for each in producers.quotas),
        *map(_rate, (each for each in producers.rates if each.wait_seconds > 0)),
        *_exclusive(producers),
        *_notes(producers),
    ]


def _storage(producers: ProducersSnapshot) -> Iterator[Reason]:
    if producers.hindrance:
        yield Reason(
            "STORAGE_TAKES_NO_WRITES",
            Holds.EVERYTHING,
            f"The broker's storage takes no writes: {producers.hindrance}.",
            {"reason": producers.hindrance},
        )
    if producers.storage_warning:
        yield Reason(
            "STORAGE_SOON_FULL",
            Holds.NOTHING,
            f"The broker's storage may soon take no writes: {producers.storage_warning}.",
            {"reason": producers.storage_warning},
        )
    if producers.metadata_is_away:
        holds = Holds.NOTHING if producers.log_state == "open" and producers.takes_messages else Holds.EVERYTHING
        yield Reason(
            "METADATA_AWAY",
            holds,
            "The metadata store does not answer: ledgers that are open take messages, and no other ledger can be made.",
        )
    if not producers.takes_messages:
        what = "New producers are refused" if producers.storage_is_down else "Producers connect again"
        until = "until a ledger can be opened" if producers.storage_is_down else "as soon as another ledger is open"
        yield Reason(
            "STORAGE_FAILS",
            Holds.EVERYTHING,
            f"The bookies do not take the topic's messages: {producers.storage_reason}. {what} {until}.",
            {"reason": producers.storage_reason, "producersAreRefused": producers.storage_is_down},
        )
    since_ms = producers.unanswered_since_ms
    seconds = 0.0 if since_ms is None else (producers.now_ms - since_ms) / 1000
    if since_ms is not None and seconds >= SLOW_APPEND_SECONDS:
        where = "for another ledger" if producers.log_state == "settling" else "for the bookies"
        yield Reason(
            "APPENDS_WAIT",
            Holds.EVERYTHING,
            f"{counted(producers.pending_sends, 'SEND')} {'has' if producers.pending_sends == 1 else 'have'} waited "
            f"{where} for {duration(seconds)}, and none was confirmed.",
            {"pending": producers.pending_sends, "sinceMs": since_ms, "seconds": seconds, "log": producers.log_state},
        )


def _admission(producers: ProducersSnapshot) -> Iterator[Reason]:
    if producers.is_terminated:
        yield Reason("TERMINATED", Holds.EVERYTHING, "The topic is terminated: it takes no more messages.")
    if producers.dedup_is_starting:
        yield Reason(
            "DEDUPLICATION_STARTS",
            Holds.EVERYTHING,
            "Deduplication is being turned on: producers are let in when the broker knows which messages are stored.",
        )


def _quota(quota: QuotaSnapshot, holds: Holds) -> Reason:
    """Returns the reason for one quota. `holds` is what it holds back if it stops producers: those that are connected
    publish until the next periodic check."""
    figures = {"quota": quota.kind, "limit": quota.limit, "policy": quota.policy}
    limit = f"The backlog exceeds its quota of {quota.limit} {QUOTA_NAMES.get(quota.kind, '')} ({quota.kind})"
    if quota.stops_producers:
        how = "hold their messages and try again" if quota.policy == "producer_request_hold" else "get an error"
        return Reason("BACKLOG_QUOTA", holds, f"{limit}. By the policy {quota.policy}, producers {how}.", figures)
    return Reason(
        "BACKLOG_EVICTED",
        Holds.NOTHING,
        f"{limit}. By the policy {quota.policy}, the oldest messages are skipped for every subscription.",
        figures,
    )


def _rate(rate: PublishRateSnapshot) -> Reason:
    whose, code = ("broker's", "BROKER") if rate.is_of_broker else ("topic's", "TOPIC")
    limits = []
    if rate.messages_per_second > 0:
        limits.append(counted(rate.messages_per_second, "message a second", "messages a second", "g"))
    if rate.bytes_per_second > 0:
        limits.append(counted(rate.bytes_per_second, "byte a second", "bytes a second", "g"))
    return Reason(
        f"{code}_PUBLISH_RATE",
        Holds.SOME,
        f"The {whose} publish rate of {' and '.join(limits)} is used up: "
        f"{counted(len(rate.waiting), 'connection')} will be read again in {duration(rate.wait_seconds)}.",
        {
            "messagesPerSecond": rate.messages_per_second,
            "bytesPerSecond": rate.bytes_per_second,
            "waitSeconds": rate.wait_seconds,
            "connections": list(rate.waiting[:LISTED_MAX]),
        },
    )


def _exclusive(producers: ProducersSnapshot) -> Iterator[Reason]:
    if producers.waiting:
        held_by = producers.exclusive or listed([each.name for each in producers.producers])
        yield Reason(
            "WAITS_FOR_EXCLUSIVE_ACCESS",
            Holds.SOME,
            f"{counted(len(producers.waiting), 'producer')} wait for exclusive access, which {held_by} has: "
            f"{listed(producers.waiting)}.",
            {"waiting": list(producers.waiting[:LISTED_MAX]), "heldBy": held_by},
        )
    elif producers.exclusive is not None:
        yield Reason(
            "EXCLUSIVE_PRODUCER",
            Holds.NOTHING,
            f"Producer {producers.exclusive} has exclusive access; any other producer is refused.",
            {"heldBy": producers.exclusive},
        )


def _notes(producers: ProducersSnapshot) -> Iterator[Reason]:
    if not producers.producers and not producers.waiting:
        last = ""
        if producers.last_publish_ms:
            ago = duration((producers.now_ms - producers.last_publish_ms) / 1000)
            last = f"; the last message since the topic was loaded came {ago} ago, at "
            last += moment(producers.last_publish_ms)
        yield Reason(
            "NO_PRODUCER",
            Holds.NOTHING,
            f"No producer is connected{last}.",
            {"lastPublishMs": producers.last_publish_ms},
        )
    if producers.refused is not None:
        yield refused_reason("PRODUCER_REFUSED", "producer", producers.refused, producers.now_ms)
