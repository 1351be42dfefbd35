"""Asking why on a topic whose log is a fake managed ledger: everything else is the real thing."""

from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.counters import now_ms
from magnetar.server.why.producer_gathering import producers_snapshot
from magnetar.server.why.producer_rules import producer_reasons
from magnetar.server.why.reasons import Reason
from magnetar.server.why.subscription_gathering import subscription_snapshot
from magnetar.server.why.subscription_rules import reasons_of


def subscription_reasons(topic: BaseTopic, name: str = "s") -> dict[str, Reason]:
    """Returns code -> reason, in the order of the reasons."""
    return {each.code: each for each in reasons_of(subscription_snapshot(topic, topic.subscriptions[name], now_ms()))}


def reasons_for_producers(topic: BaseTopic, hindrance: str = "") -> dict[str, Reason]:
    return {each.code: each for each in producer_reasons(producers_snapshot(topic, now_ms(), hindrance))}
