"""Decides what keeps a whole topic from serving its clients, by a snapshot of it."""

from dataclasses import dataclass

from magnetar.server.why.reasons import Holds, Reason, duration


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """A topic that is loaded here."""

    is_owned: bool
    """Whether this broker owns the topic's bundle now."""
    is_open: bool
    """False while the topic is being closed."""
    log_is_fenced: bool = False
    """Whether another broker has taken the topic's log over."""


@dataclass(frozen=True, slots=True)
class AbsentTopic:
    """A topic that exists and is not loaded here, although a load was tried."""

    is_closing: bool
    loading_seconds: float | None
    """How long the topic has been loading; None while it does not load."""
    has_permit: bool
    """Whether the topic is being opened. While it loads without a permit, it waits for other topics."""
    failure: str = ""
    """Why the load failed."""


UNUSED = Reason("UNUSED", Holds.NOTHING, "No client has used this partition yet, so it is not loaded anywhere.")


def topic_reasons(topic: TopicSnapshot) -> list[Reason]:
    reasons = []
    if not topic.is_owned:
        reasons.append(
            Reason(
                "NOT_OWNER",
                Holds.EVERYTHING,
                "This broker has given the topic's bundle away; clients look the topic up again and find its owner.",
            )
        )
    if topic.log_is_fenced:
        reasons.append(
            Reason(
                "LOG_TAKEN_OVER",
                Holds.EVERYTHING,
                "Another broker has taken over the topic's log; the topic closes here, and clients look it up again.",
            )
        )
    if not topic.is_open:
        reasons.append(
            Reason("TOPIC_CLOSING", Holds.EVERYTHING, "The topic is being closed; clients connect again by themselves.")
        )
    return reasons


def reasons_of_absent(topic: AbsentTopic) -> list[Reason]:
    if topic.failure:
        return [
            Reason(
                "TOPIC_LOAD_FAILS",
                Holds.EVERYTHING,
                f"The topic cannot be loaded: {topic.failure}",
                {"error": topic.failure},
            )
        ]
    if topic.is_closing:
        return [
            Reason(
                "TOPIC_CLOSING", Holds.EVERYTHING, "The topic is being closed, and is loaded again when that is done."
            )
        ]
    seconds = topic.loading_seconds or 0.0
    step = (
        "its ledgers and cursors are being recovered"
        if topic.has_permit
        else "it waits for other topics (maxConcurrentTopicLoadRequest)"
    )
    return [
        Reason(
            "TOPIC_LOADING",
            Holds.EVERYTHING,
            f"The topic has been loading for {duration(seconds)}: {step}.",
            {"seconds": seconds, "waitsForPermit": not topic.has_permit},
        )
    ]
