"""A policy of many topics, by which tests see whether all brokers of a cluster have one picture."""

from typing import Any

from compat_tests.cluster.admin import call, lookup
from compat_tests.cluster.seats import BrokerSeat

TOPICS = 12


def topic(number: int) -> str:
    return f"/admin/v2/persistent/public/default/t{number}"


def owner(broker: BrokerSeat, name: str) -> str:
    return lookup(broker, f"public/default/{name}").web_url


def limits(broker: BrokerSeat) -> list[Any]:
    return [call(broker, f"{topic(number)}/maxProducers") for number in range(TOPICS)]


def set_all(brokers: list[BrokerSeat], first: int) -> list[int]:
    for number in range(TOPICS):
        call(brokers[number % len(brokers)], f"{topic(number)}/maxProducers", "POST", first + number)
    return [first + number for number in range(TOPICS)]
