"""The call that answers why a topic's subscriptions or producers get nothing. Only Magnetar has it.

The answer for a partitioned topic holds the answers of its partitions, each given by the partition's owner.
"""

import asyncio
from collections.abc import Collection
from typing import Any

from magnetar.server.admin.call_paths import topic_of
from magnetar.server.admin.over_partitions import each_partition
from magnetar.server.admin.partition_outcome_rules import Outcome
from magnetar.server.admin.topic_calls import loaded_of_any_domain, partitions_of
from magnetar.server.process.turns import in_portions
from magnetar.server.web.calls import Answer, Call, Refusal
from magnetar.server.why import answers
from magnetar.server.why.reasons import Holds, Reason
from magnetar.server.why.topic_rules import AbsentTopic
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import PulsarError, SubscriptionNotFound, TopicNotFound

LOAD_SECONDS = 5.0
"""How long an answer waits for a topic that is not loaded. Then it says that the topic is still loading."""


SUBSCRIPTIONS_SHOWN = 20
"""How many subscriptions are named when the one that was asked for is not there."""


async def why(call: Call) -> Answer:
    """Answers for one topic, or for each partition. The parameter `subscription` narrows the answer down."""
    name = topic_of(call)
    count = await partitions_of(call, name)
    if not count:
        return await _of_topic(call)
    outcomes = await each_partition(call, name, count, _of_topic)
    if all(each.refusal is not None and each.refusal.status == 404 for each in outcomes):
        raise outcomes[0].refusal or Refusal(404, "Not found")
    partitions, verdict = {}, False
    async for outcome in in_portions(outcomes):
        full_name = name.partition(outcome.partition).full
        partitions[full_name] = told = _told(full_name, outcome)
        verdict = verdict or told["standsInTheWay"]
    return {"topic": name.full, "standsInTheWay": verdict, "partitions": partitions}


def _told(name: str, outcome: Outcome) -> dict[str, Any]:
    """Returns the answer of a partition. A partition that could not be asked is told as a reason."""
    if outcome.refusal is None:
        answer: dict[str, Any] = outcome.value
        return answer
    text = f"The partition gave no answer: {outcome.refusal.reason}"
    reason = Reason("NOT_ANSWERED", Holds.EVERYTHING, text, {"status": outcome.refusal.status})
    return {"topic": name, "broker": None, "standsInTheWay": True, "reasons": [reason.as_json()], "subscriptions": {}}


async def _of_topic(call: Call) -> Answer:
    name, broker = topic_of(call), call.broker
    try:
        async with asyncio.timeout(LOAD_SECONDS):
            held = await loaded_of_any_domain(call)
    except TimeoutError:
        return _absent(call)
    except TopicNotFound:
        if name.is_partition and name.partition_index < await partitions_of(call, name.base):
            return answers.why_unused(name.full, broker.broker_id)
        raise
    except (PulsarError, ManagedLedgerError) as error:
        return _absent(call, str(error))
    subscription = call.query.get("subscription")
    if subscription is not None and subscription not in held.subscriptions:
        raise SubscriptionNotFound(_not_found(subscription, held.subscriptions))
    return await answers.why(
        held,
        broker.broker_id,
        is_owned=broker.ownership.owns(name),
        subscription=subscription,
        hindrance=broker.readiness.hindrance or "",
        storage_warning=broker.readiness.warning or "",
    )


def _not_found(subscription: str, others: Collection[str]) -> str:
    """Returns the refusal for a subscription that the topic does not have. The refusal names those that it has, because
    most such names are misspelt."""
    shown = ", ".join(sorted(others)[:SUBSCRIPTIONS_SHOWN]) or "none"
    more = len(others) - SUBSCRIPTIONS_SHOWN
    return f"Subscription {subscription} not found; the topic has: {shown}{f' and {more} more' if more > 0 else ''}"


def _absent(call: Call, failure: str = "") -> Answer:
    """Answers for a topic that exists and did not become ready in time."""
    name, service = topic_of(call), call.broker.service
    under_way = service.load_permits.under_way.get(name.full)
    absent = AbsentTopic(
        is_closing=name.full in service.closing_topics,
        loading_seconds=None if under_way is None else asyncio.get_running_loop().time() - under_way.began_s,
        has_permit=under_way is not None and under_way.has_permit,
        failure=failure,
    )
    return answers.why_absent(name.full, call.broker.broker_id, absent)
