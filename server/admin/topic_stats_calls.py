"""The calls on the statistics of topics and of partitioned topics as a whole, and on the records of topics in the
metadata store.

Source: PersistentTopicsBase.internalGetStatsAsync, internalGetPartitionedStats; TopicStatsImpl.add; answers recorded
from Pulsar 4.0.7.
"""

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.store import Stat
from magnetar.server.admin import json_records
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.over_partitions import all_here, at_partitions
from magnetar.server.admin.partition_outcome_rules import succeeded
from magnetar.server.admin.topic_calls import loaded, loaded_of_any_domain, message_id, partitions_of
from magnetar.server.namespaces.partitioned_topics import PartitionedTopic
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.process.turns import in_portions
from magnetar.server.stats import domain_stats
from magnetar.server.stats.traffic_stats import iso_time
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.web.calls import Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from magnetar.storage.managed.list_record import parse_list
from pulsar_proto.errors import MalformedRecord, TopicNotFound
from pulsar_proto.ids import signed64
from pulsar_proto.names import TopicName, decode_local
from pulsar_proto.records.ledger_record import LedgerMetadata, ledger_path
from pulsar_proto.records.managed_record import parse_managed_cursor_info

LARGEST = (
    "lastPublishTimeStamp",
    "lastExpireTimestamp",
    "lastConsumedFlowTimestamp",
    "lastConsumedTimestamp",
    "lastAckedTimestamp",
    "lastMarkDeleteAdvancedTimestamp",
    "lastCompactionSucceedTimestamp",
    "lastCompactionFailedTimestamp",
    "oldestBacklogMessageAgeSeconds",
    "backlogQuotaLimitSize",
    "backlogQuotaLimitTime",
    "topicEpoch",
)
"""Statistics for which a partitioned topic reports the largest number among its partitions instead of the sum."""

SMALLEST = ("topicCreationTimeStamp", "earliestMsgPublishTimeInBacklogs", "earliestMsgPublishTimeInBacklog")
"""Statistics that hold a time. A partitioned topic reports the smallest time of its partitions; 0 means that no
partition has one."""


async def stats(call: Call) -> Answer:
    return await _stats_of(call, await loaded_of_any_domain(call))


async def _stats_of(call: Call, held: BaseTopic) -> dict[str, Any]:
    answer = _shown(call, domain_stats.topic_stats(held))
    if call.flag("getEarliestTimeInBacklog"):
        with storage_faults_told():
            await domain_stats.add_earliest_times(held, answer)
    return answer


def _shown(call: Call, answer: dict[str, Any]) -> dict[str, Any]:
    """Adds the broker's id to the statistics of a topic, and removes the publishers or consumers if the call's
    parameters exclude them. Returns `answer` itself."""
    answer["ownerBroker"] = call.broker.broker_id
    if call.flag("excludePublishers"):
        answer["publishers"] = []
    if call.flag("excludeConsumers"):
        for subscription in answer["subscriptions"].values():
            subscription["consumers"] = []
    return answer


async def internal_stats(call: Call) -> Answer:
    held = await loaded_of_any_domain(call)
    answer: dict[str, Any] = domain_stats.internal_stats(held)
    if call.flag("metadata"):
        for ledger in answer.get("ledgers", ()):
            ledger["metadata"] = await _ledger_metadata(call, ledger["ledgerId"])
    if held.schemas is not None:
        answer["schemaLedgers"] = await held.schemas.ledgers(held.name)
    return answer


async def _ledger_metadata(call: Call, ledger_id: int) -> str:
    """Returns the metadata of a ledger as Java prints it (LedgerMetadataImpl.toSafeString), or "" when the ledger has
    no metadata. Raises MetadataError."""
    record = await call.broker.bookie_metadata.get(ledger_path(ledger_id))
    if record is None:
        return ""
    try:
        return safe_text(LedgerMetadata.parse(ledger_id, record.value))
    except MalformedRecord as error:
        return str(error)


def safe_text(metadata: LedgerMetadata) -> str:
    """Returns the metadata of a ledger as text, without its password. The function does no I/O."""
    fields: dict[str, object] = {
        "formatVersion": metadata.format_version,
        "ensembleSize": metadata.ensemble_size,
        "writeQuorumSize": metadata.write_quorum,
        "ackQuorumSize": metadata.ack_quorum,
        "state": metadata.state.name,
    }
    if metadata.is_closed:
        fields |= {"length": metadata.length, "lastEntryId": metadata.last_entry_id}
    if metadata.digest_type is not None:
        fields |= {"digestType": metadata.digest_type.name, "password": "OMITTED"}
    ensembles = ", ".join(f"{first}=[{', '.join(bookies)}]" for first, bookies in metadata.ensembles)
    custom = ", ".join(f"{key}=base64:{b64encode(value).decode()}" for key, value in metadata.custom_metadata.items())
    fields |= {"ensembles": f"{{{ensembles}}}", "customMetadata": f"{{{custom}}}"}
    return "LedgerMetadata{" + ", ".join(f"{name}={value}" for name, value in fields.items()) + "}"


async def partitioned_stats(call: Call) -> Answer:
    """Answers with the statistics of a partitioned topic as a whole, and with those of each partition unless the
    parameter `perPartition` is false."""
    record = await _record(call)
    name = topic_of(call)
    partitions: dict[str, Any] = {}
    if not all_here(call, name, record.partitions):
        for outcome in succeeded(await at_partitions(call, name, range(record.partitions), stats, tail="stats")):
            partitions[name.partition(outcome.partition).full] = outcome.value
    else:
        async for index in in_portions(range(record.partitions)):
            each = name.partition(index)
            held = await call.broker.service.get_any(each, create=True)
            partitions[each.full] = await _stats_of(call, held)
    total = await total_of(partitions.values())
    total["metadata"] = _metadata(record)
    total["partitions"] = partitions if call.flag("perPartition", True) else {}
    return total


async def total_of(partitions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Returns the statistics of all partitions as those of one topic."""
    total: dict[str, Any] = {}
    async for stats in in_portions(partitions):
        _add(total, stats)
    total.pop("ownerBroker", None)
    if total.get("msgRateIn"):
        total["averageMsgSize"] = total["msgThroughputIn"] / total["msgRateIn"]
    return total


def _add(total: dict[str, Any], other: dict[str, Any]) -> None:
    """Adds the statistics of a partition to the total. Numbers are added, lists joined, objects added member by member;
    a truth value of the total is true when that of any partition is. For any other value, the total keeps the value of
    the first partition."""
    for key, value in other.items():
        known = total.get(key)
        if known is None:
            total[key] = _copy(value)
        elif isinstance(value, bool) or isinstance(known, bool):
            total[key] = known or value
        elif isinstance(value, int | float) and isinstance(known, int | float):
            total[key] = _together(key, known, value)
        elif isinstance(value, list) and isinstance(known, list):
            known.extend(value)
        elif isinstance(value, dict) and isinstance(known, dict):
            _add(known, value)


def _together(key: str, one: float, other: float) -> float:
    if key in LARGEST:
        return max(one, other)
    if key in SMALLEST:
        return min(one or other, other or one)
    return one + other


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(each) for key, each in value.items()}
    return list(value) if isinstance(value, list) else value


async def partitioned_internal_stats(call: Call) -> Answer:
    record = await _record(call)
    name = topic_of(call)
    if not all_here(call, name, record.partitions):
        asked = await at_partitions(call, name, range(record.partitions), internal_stats, tail="internalStats")
        found = {name.partition(outcome.partition).full: outcome.value for outcome in succeeded(asked)}
        return {"metadata": _metadata(record), "partitions": found}
    partitions = {}
    async for index in in_portions(range(record.partitions)):
        each = name.partition(index)
        held = await call.broker.service.get_any(each, create=True)
        partitions[each.full] = domain_stats.internal_stats(held)
    return {"metadata": _metadata(record), "partitions": partitions}


async def _record(call: Call) -> PartitionedTopic:
    name, catalog = topic_of(call), call.broker.service.catalog
    await catalog.check_namespace(name.namespace)
    record = await catalog.partitioned.get(name)
    if record is None:
        raise Refusal(404, f"Partitioned Topic {name.full} not found")
    return record


def _metadata(record: PartitionedTopic) -> dict[str, Any]:
    metadata: dict[str, Any] = {"partitions": record.partitions, "deleted": record.deleted}
    if record.properties is not None:
        metadata["properties"] = dict(record.properties)
    return metadata


async def last_message_id(call: Call) -> Answer:
    name = topic_of(call)
    if not name.is_persistent:
        raise Refusal(405, "GetLastMessageId on a non-persistent topic is not allowed")
    if await partitions_of(call, name):
        raise TopicNotFound(f"Topic {name.full} not found")
    held = await loaded(call)
    position, batch_index = await held.last_message_id()
    answer = message_id(position, held.name.partition_index, batch_index)
    if batch_index >= 0:
        answer |= {"outstandingAcksInSameBatch": 0, "originalBatchSize": 0}
    return answer


async def internal_info(call: Call) -> Answer:
    """Answers with the content of the metadata store about the topic, or about each partition."""
    name = topic_of(call)
    count = await partitions_of(call, name)
    if not count:
        return await _info(call, name)
    infos = {}
    async for index in in_portions(range(count)):
        each = name.partition(index)
        infos[each.full] = await _info(call, each)
    return {"version": 0, "partitions": infos}


async def _info(call: Call, name: TopicName) -> dict[str, Any]:
    store, path = call.broker.service.metadata, paths.managed_ledger_path(name.managed_ledger_name)
    record = await store.get(path)
    if record is None:
        raise TopicNotFound(f"Topic {name.full} not found")
    stored = parse_list(record.value)
    info: dict[str, Any] = _dates(record.stat)
    info["ledgers"] = []
    for ledger in stored.ledgers:
        sizes = {"entries": ledger.entries, "size": ledger.size} if ledger.entries else {}
        info["ledgers"].append(
            {
                "ledgerId": ledger.ledger_id,
                **sizes,
                "timestamp": ledger.closed_ms,
                "isOffloaded": ledger.offloaded_only,
            }
        )
    if stored.terminated is not None:
        info["terminatedPosition"] = {"ledgerId": stored.terminated.ledger_id, "entryId": stored.terminated.entry_id}
    if stored.properties:
        info["properties"] = dict(stored.properties)
    info["cursors"] = {}
    async for child in in_portions(await json_records.children(store, path)):
        node = await store.get(f"{path}/{child}")
        if node is not None:
            cursor = parse_managed_cursor_info(node.value)
            info["cursors"][decode_local(child)] = {
                **_dates(node.stat),
                "cursorsLedgerId": cursor.cursorsLedgerId,
                "markDelete": {
                    "ledgerId": cursor.markDeleteLedgerId,
                    "entryId": signed64(cursor.markDeleteEntryId),
                },
            }
    return info


def _dates(stat: Stat) -> dict[str, Any]:
    return {
        "version": stat.version,
        "creationDate": iso_time(stat.created_ms),
        "modificationDate": iso_time(stat.modified_ms),
    }


ROUTES = (
    Route("GET", f"{TOPIC}/stats", stats, topic("GET_STATS"), Place.TOPIC),
    Route("GET", f"{TOPIC}/internalStats", internal_stats, topic("GET_STATS"), Place.TOPIC),
    Route("GET", f"{TOPIC}/partitioned-stats", partitioned_stats, topic("GET_STATS"), Place.ANY_BROKER),
    Route(
        "GET", f"{TOPIC}/partitioned-internalStats", partitioned_internal_stats, topic("GET_STATS"), Place.ANY_BROKER
    ),
    Route("GET", f"{TOPIC}/internal-info", internal_info, topic("GET_METADATA"), Place.ANY_BROKER),
    Route("GET", f"{TOPIC}/lastMessageId", last_message_id, topic("PEEK_MESSAGES"), Place.TOPIC),
)
