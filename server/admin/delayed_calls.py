"""The call that tells when the delayed messages of a subscription become due. Only Magnetar has it."""

from itertools import islice
from typing import Final

from magnetar.server.admin.delay_bucket_rules import buckets_of
from magnetar.server.admin.subscription_requests import SUBSCRIPTION, refuse_partitioned, subscription_of
from magnetar.server.process.turns import in_portions
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from magnetar.server.web.calls import Answer, Call, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from pulsar_proto.ids import Position

LOOKED_AT_MAX: Final = 100_000
"""How many delayed entries of the topic one call looks at, those that are due first. The answer says with `isCut` that
there are more."""


async def delayed(call: Call) -> Answer:
    """Answers with the number of delayed entries of the subscription, when the first of them is due, and how many are
    due when. As in the stats, an entry counts once the subscription's dispatcher has read it and put it aside."""
    await refuse_partitioned(call, "Delayed messages of a partitioned topic are told by its partitions")
    subscription = await subscription_of(call)
    dispatcher, cursor = subscription.dispatcher, subscription.cursor
    index = subscription.topic.delayed.index
    times: list[int] = []
    if isinstance(dispatcher, SharedDispatcher):
        async for due_ms, ledger_id, entry_id in in_portions(islice(index.in_order(), LOOKED_AT_MAX)):
            is_read = Position(ledger_id, entry_id) < dispatcher.read_position
            if is_read and not cursor.is_acked(ledger_id, entry_id):
                times.append(due_ms)
    return {
        "messages": subscription.delayed_messages,
        "nextDue": times[0] if times else None,
        "buckets": buckets_of(times),
        "isCut": len(index) > LOOKED_AT_MAX,
    }


ROUTES = (Route("GET", f"{SUBSCRIPTION}/delayed", delayed, topic("GET_STATS"), Place.TOPIC),)
