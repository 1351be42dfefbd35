"""Prints one message's story for people. Does no I/O."""

from collections.abc import Iterator, Mapping
from typing import Any

from magnetar.server.tools.diagnosis.printable import joined


def story_text(answer: Mapping[str, Any]) -> str:
    """Returns the lines of the answer to `…/messages/{ledger}/{entry}/story`."""
    return joined(_lines(answer))


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    where = answer["where"]
    bookies = ", ".join(where["writeSet"]) or "no bookie that is known"
    state = where["ledgerState"].lower()
    yield f"message {answer['id']}: {where['size']} bytes in ledger {where['ledger']}, which is {state}"
    yield f"  stored by {bookies} (ack {where['ackQuorum']})"
    for each in answer["subscriptions"]:
        yield f"  subscription {each['name']} ({each['type']}): {each['state']}. {each['sentence']}"
    if not answer["subscriptions"]:
        yield "  the topic has no subscription"
    yield f"  {answer['notRecorded']}"
