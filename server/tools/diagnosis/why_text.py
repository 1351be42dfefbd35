"""Prints the answer to `…/why` for people. The broker's JSON already has the sentences; this module only lays them out.
Does no I/O."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from magnetar.server.tools.diagnosis.printable import joined
from pulsar_proto.counted import counted

LABELS = {"everything": "everything waits", "some": "some wait", "nothing": "note"}
"""The words in front of a sentence, by what the reason holds back."""

ALL_CLEAR = "nothing stands in the way"


def why_text(answer: Mapping[str, Any]) -> str:
    """Returns the lines for a topic, or for all partitions of a partitioned topic."""
    partitions = answer.get("partitions")
    if partitions is None:
        return joined(_topic(answer))
    return "\n\n".join(joined(_topic(each)) for each in partitions.values())


def _topic(answer: Mapping[str, Any]) -> Iterator[str]:
    at = f" at broker {answer['broker']}" if answer.get("broker") else ""
    yield f"{answer['topic']}{at}"
    yield from _reasons(answer["reasons"], "  ")
    for name, each in answer["subscriptions"].items():
        count = each["consumerCount"]
        clear = "" if each["standsInTheWay"] else f": {ALL_CLEAR}"
        yield f"  subscription {name} ({each['type']}, {counted(count, 'consumer')}){clear}"
        if each["summary"]:
            yield f"    backlog: {each['summary']}"
        yield from _reasons(each["reasons"], "    ")
    if answer.get("subscriptionsLeftOut"):
        are = counted(answer["subscriptionsLeftOut"], "more subscription is", "more subscriptions are")
        yield f"  {are} left out; name one to see it"
    producers = answer.get("producers")
    if producers is not None:
        clear = "" if producers["standsInTheWay"] else f": {ALL_CLEAR}"
        yield f"  producers ({producers['producerCount']}){clear}"
        yield from _reasons(producers["reasons"], "    ")


def _reasons(reasons: Sequence[Mapping[str, Any]], indent: str) -> Iterator[str]:
    for reason in reasons:
        label = LABELS.get(reason["holdsBack"], reason["holdsBack"])
        yield f"{indent}{label}: {reason['sentence']} [{reason['code']}]"
