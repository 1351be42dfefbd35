"""Does the work of calls on a partitioned topic: the owner of each partition does the part for its partition. For a
partition of another broker, this broker calls that broker.

While this broker owns all partitions, as a standalone broker always does, the call's own handler does all of the
work.
Source: PersistentTopicsBase, which uses the broker's admin client for every partition.
"""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from magnetar.metadata.errors import MetadataError
from magnetar.server.admin.call_paths import topic_of
from magnetar.server.admin.over_bundles import each_at_once
from magnetar.server.admin.partition_outcome_rules import Outcome
from magnetar.server.admin.peer_calls import ask_peer, forwarded
from magnetar.server.process.turns import in_portions
from magnetar.server.topics.topic_deletion import TopicBusy
from magnetar.server.web.calls import Answer, Call, Handler, Refusal, Status, Text, refusal_of
from magnetar.server.web.place_rules import AUTHORITATIVE, location
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import PulsarError, ServiceNotReady
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)

TOPIC_SEGMENT = 6
"""The place of the topic in `/admin/v2/{domain}/{tenant}/{namespace}/{topic}`."""

Combine = Callable[[list[Outcome]], Answer]
"""A function of `partition_outcome_rules`."""


def over_partitions(combine: Combine) -> Callable[[Handler], Handler]:
    """Wraps a handler, so that its call also works on a partitioned topic whose partitions have other owners. `combine`
    makes one answer out of the owners' answers."""

    def of(handler: Handler) -> Handler:
        @wraps(handler)
        async def answer(call: Call) -> Answer:
            name = topic_of(call)
            record = None
            if not call.broker.ownership.is_sole:
                record = await call.broker.service.catalog.partitioned.get(name)
            if record is None or all_here(call, name, record.partitions):
                return await handler(call)
            return combine(await at_partitions(call, name, range(record.partitions), handler))

        return answer

    return of


def all_here(call: Call, name: TopicName, partitions: int) -> bool:
    """Returns whether this broker owns all partitions of the topic now."""
    owns = call.broker.ownership.owns
    return call.broker.ownership.is_sole or all(owns(name.partition(index)) for index in range(partitions))


async def at_partitions(
    call: Call,
    name: TopicName,
    indexes: Sequence[int],
    handler: Handler,
    *,
    method: str = "",
    tail: str | None = None,
    body: bytes | None = None,
) -> list[Outcome]:
    """Makes a call on each of these partitions at the partition's owner, and returns the outcomes. A partition without
    an owner gets one. The call repeats the caller's call, except for the `method`, the `body` and the path behind the
    topic (`tail`) if they are given. For a partition of this broker, `handler` does the work. A Refusal, PulsarError,
    ManagedLedgerError, MetadataError or TopicBusy on a partition becomes an outcome with a refusal. Any other error is
    raised when all calls are done."""

    async def one(index: int) -> Outcome:
        partition = name.partition(index)
        target = partition_target(call.target, index, tail)
        content = call.body if body is None else body
        try:
            owner = (await call.broker.lookups.find_topic(partition)).broker
            if owner.broker_id == call.broker.broker_id:
                parts = {**call.parts, "topic": partition.local_name}
                return Outcome(
                    index, content_of(await handler(replace(call, parts=parts, target=target, body=content)))
                )
            asked = await ask_peer(
                call.broker, owner, method or call.method, target, body=content or None, headers=forwarded(call)
            )
            return Outcome(index, asked)
        except Refusal as refusal:
            return Outcome(index, refusal=refusal)
        except (PulsarError, ManagedLedgerError, MetadataError, TopicBusy) as error:
            return Outcome(index, refusal=_refusal_of(error))

    results = await each_at_once(indexes, one)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return [result for result in results if not isinstance(result, Exception)]


async def each_partition(call: Call, name: TopicName, partitions: int, handler: Handler) -> list[Outcome]:
    """Makes a call that only reads on every partition, and returns the outcomes. While this broker owns all partitions,
    it goes from one to the next, so that clients are served meanwhile. Otherwise it asks the owners at the same
    time."""
    if not all_here(call, name, partitions):
        return await at_partitions(call, name, range(partitions), handler)
    outcomes = []
    async for index in in_portions(range(partitions)):
        parts = {**call.parts, "topic": name.partition(index).local_name}
        try:
            outcomes.append(Outcome(index, await handler(replace(call, parts=parts))))
        except PulsarError as error:
            outcomes.append(Outcome(index, refusal=_refusal_of(error)))
    return outcomes


def partition_target(target: str, index: int, tail: str | None = None) -> str:
    """Returns the path and query of a call on one partition. `target` is the path and query of the call on the
    partitioned topic. The function does no I/O."""
    path, question_mark, query = target.partition("?")
    segments = path.rstrip("/").split("/")
    segments[TOPIC_SEGMENT] += f"-partition-{index}"
    if tail is not None:
        segments[TOPIC_SEGMENT + 1 :] = [tail] if tail else []
    return location(f"{'/'.join(segments)}{question_mark}{query}", "", dropped=(AUTHORITATIVE,))


def content_of(answer: Answer) -> Any:
    """Returns the value that a client would read from the body of an answer, or None when the answer has no body.
    The function does no I/O."""
    if isinstance(answer, Status):
        return answer.value
    if isinstance(answer, Text):
        body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        return json.loads(body) if body else None
    return answer


def _refusal_of(error: Exception) -> Refusal:
    if isinstance(error, TopicBusy):
        return Refusal(412, str(error))
    if isinstance(error, ServiceNotReady):
        return Refusal(503, str(error))
    return refusal_of(error) if isinstance(error, PulsarError) else Refusal(500, str(error))
