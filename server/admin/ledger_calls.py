"""The call that tells which ledgers a topic has, where their entries are, and what keeps them. Only Magnetar has it."""

from typing import Any

from magnetar.metadata.errors import MetadataError
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.over_bundles import each_at_once
from magnetar.server.admin.over_partitions import each_partition
from magnetar.server.admin.topic_calls import loaded, partitions_of
from magnetar.server.web.calls import Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from magnetar.server.why.ledger_answers import fragments, topic_ledgers
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.records.ledger_record import LedgerMetadata, ledger_path


async def ledgers(call: Call) -> Answer:
    """Answers for one topic, or for each partition."""
    name = topic_of(call)
    if not name.is_persistent:
        raise Refusal(405, "A non-persistent topic has no ledgers")
    count = await partitions_of(call, name)
    if not count:
        return await _of_topic(call)
    partitions: dict[str, Any] = {}
    for outcome in await each_partition(call, name, count, _of_topic):
        full_name = name.partition(outcome.partition).full
        refusal = outcome.refusal
        partitions[full_name] = outcome.value if refusal is None else {"topic": full_name, "error": refusal.reason}
    return {"topic": name.full, "partitions": partitions}


async def _of_topic(call: Call) -> Answer:
    held, service = await loaded(call), call.broker.service
    answer = await topic_ledgers(held, call.broker.broker_id, service.reaper.waiting_of(held.name.full))

    async def locate(ledger: dict[str, Any]) -> None:
        ledger |= await _place_of(call, ledger["ledgerId"], ledger["entries"])

    told: Any = answer["ledgers"]
    for result in await each_at_once(told, locate):
        if isinstance(result, Exception):
            raise result
    if held.schemas is not None:
        answer["schemaLedgers"] = [each["ledgerId"] for each in await held.schemas.ledgers(held.name)]
    return answer


async def _place_of(call: Call, ledger_id: int, entries: int) -> dict[str, Any]:
    """Returns where the entries of a ledger are, or the fault of its record."""
    try:
        record = await call.broker.bookie_metadata.get(ledger_path(ledger_id))
        if record is None:
            return {"fault": "the ledger has no record: its entries are lost"}
        return fragments(LedgerMetadata.parse(ledger_id, record.value), entries)
    except (MetadataError, MalformedRecord) as error:
        return {"fault": str(error)}


ROUTES = (Route("GET", f"{TOPIC}/ledgers", ledgers, topic("GET_STATS"), Place.TOPIC_OR_PARTITIONS),)
