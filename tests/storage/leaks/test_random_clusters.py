"""Random clusters with leaks made on purpose: the rules find every leak, say why, and never name a ledger in use."""

import random
from dataclasses import dataclass, field
from zlib import crc32

import pytest

from magnetar.storage.leaks.ledger_facts_rules import Component, LedgerFacts, facts_of
from magnetar.storage.leaks.orphan_rules import CREATION_MS, BlindSpot, Caution, OwnedBundle, Picture, Verdict, judge
from magnetar.storage.leaks.reference_rules import (
    BUCKET_PROPERTY_PREFIX,
    Role,
    references_of_cursor,
    references_of_cursor_entry,
    references_of_log_segment,
    references_of_managed_ledger,
    references_of_schema,
    references_of_schema_entry,
)
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.names import topic_of_managed_ledger
from pulsar_proto.pb import managed_ledger_pb2 as pb
from pulsar_proto.pb import pulsar_api_pb2 as api
from pulsar_proto.records import compression
from pulsar_proto.records.ledger_record import LedgerMetadata, ledger_path
from tests.rounds import rounds

NOW_MS = 10_000_000
CAUTION = Caution(NOW_MS, grace_ms=1000)
OLD_MS = NOW_MS - 2 * CREATION_MS
CODECS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


@dataclass
class Cluster:
    """A cluster's records and ledgers, made by chance, with the truth about each ledger."""

    rng: random.Random
    ledgers: dict[int, bytes] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    leaked: dict[int, str] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    picture: Picture = field(default_factory=lambda: Picture(tenants={"t"}))

    def ledger(self, labels: dict[str, str], *, leaked: str | None = None, closed: bool = True) -> int:
        ledger_id = self.rng.randrange(2**33)
        metadata = LedgerMetadata(
            ledger_id,
            1,
            1,
            1,
            ((0, ("b:1",)),),
            custom_metadata={key: value.encode() for key, value in labels.items()},
        )
        self.ledgers[ledger_id] = (metadata.closed(4, 50) if closed else metadata).serialize()
        if leaked is None:
            self.used.add(ledger_id)
        elif closed:
            self.leaked[ledger_id] = leaked
        return ledger_id

    def made(self, count: int, labels: dict[str, str]) -> list[int]:
        return [self.ledger(labels, closed=self.rng.random() < 0.7) for _ in range(count)]

    def chance(self, part: float) -> bool:
        return self.rng.random() < part

    def compressed(self, record: bytes) -> bytes:
        codec = self.rng.choice(CODECS)
        head = pb.CompressedInfoMetadata(
            compressionType=pb.CompressionType.Value(codec), uncompressedSize=len(record)
        ).SerializeToString()
        body = compression.compress(api.CompressionType.Value(codec), record)
        return record if codec == "NONE" else b"\x47\x78" + len(head).to_bytes(4, "big") + head + body

    def facts(self, ledger_id: int, created_ms: int = OLD_MS) -> LedgerFacts:
        return facts_of(ledger_id, ledger_path(ledger_id), self.ledgers[ledger_id], 3, created_ms)


def pulsars(component: str, **labels: str) -> dict[str, str]:
    return {"application": "pulsar", "component": component} | {f"pulsar/{k}": v for k, v in labels.items()}


def topic_labels(name: str) -> dict[str, str]:
    return pulsars("managed-ledger", **{"managed-ledger": name})


def add_topic(cluster: Cluster, name: str) -> None:
    exists, path = cluster.chance(0.7), f"/managed-ledgers/{name}"
    labels = topic_labels(name)
    gone = None if exists else "topic deleted"
    info = pb.ManagedLedgerInfo()
    for _ in range(cluster.rng.randrange(4)):
        stored = info.ledgerInfo.add(ledgerId=cluster.ledger(labels, leaked=gone))
        if cluster.chance(0.2):
            stored.offloadContext.complete = cluster.chance(0.5)
    if exists and cluster.chance(0.3):
        leaked = cluster.ledger(labels, leaked="offloaded and deleted")
        info.ledgerInfo.add(ledgerId=leaked).offloadContext.MergeFrom(
            pb.OffloadContext(complete=True, bookkeeperDeleted=True)
        )
    if exists and cluster.chance(0.3):
        cluster.ledger(labels, leaked="not in the topic's list", closed=cluster.chance(0.5))
    if exists and cluster.chance(0.1):
        lost = cluster.rng.randrange(2**33)
        info.ledgerInfo.add(ledgerId=lost)
        cluster.lost.add(lost)
    if exists:
        cluster.picture.cursors.setdefault(name, set())
        cluster.picture.add(references_of_managed_ledger(path, cluster.compressed(info.SerializeToString())))
    for number in range(cluster.rng.randrange(3)):
        add_cursor(cluster, name, f"s{number}", exists)
    add_compaction(cluster, name, topic_of_managed_ledger(name), exists)


def add_cursor(cluster: Cluster, name: str, cursor: str, topic_exists: bool) -> None:
    exists = topic_exists and cluster.chance(0.8)
    gone = None if exists else "subscription deleted" if topic_exists else "topic deleted"
    labels = topic_labels(name) | {"pulsar/cursor": cursor}
    has_ledger = not exists or cluster.chance(0.7)
    info = pb.ManagedCursorInfo(cursorsLedgerId=cluster.ledger(labels, leaked=gone) if has_ledger else -1)
    bucket = pulsars(
        "delayed-index-bucket",
        delayedIndexTopic=topic_of_managed_ledger(name),
        delayedIndexCursor=cursor,
    )
    for number in range(cluster.rng.randrange(3)):
        stored = cluster.ledger(bucket, leaked=gone)
        info.cursorProperties.add(name=f"{BUCKET_PROPERTY_PREFIX}_{number}_{number + 5}", value=str(stored))
    info.cursorProperties.add(name="colour", value="12")
    if not exists:
        return
    if cluster.chance(0.3):
        cluster.ledger(bucket, leaked="delivered bucket")
    if cluster.chance(0.3):
        cluster.ledger(labels, leaked="superseded cursor ledger")
    cluster.picture.cursors[name].add(cursor)
    value = cluster.compressed(info.SerializeToString())
    cluster.picture.add(references_of_cursor(f"/managed-ledgers/{name}/{cursor}", value).references)


def add_compaction(cluster: Cluster, name: str, topic: str, topic_exists: bool) -> None:
    if cluster.chance(0.5):
        return
    labels = pulsars("compacted-ledger", compactedTopic=topic, compactedTo="x")
    path = f"/managed-ledgers/{name}/__compaction"
    current = cluster.ledger(labels, leaked=None if topic_exists else "topic deleted")
    if not topic_exists:
        return
    cluster.picture.cursors[name].add("__compaction")
    if cluster.chance(0.3):
        cluster.ledger(labels, leaked="superseded compaction")
    in_ledger = cluster.chance(0.5)
    info = pb.ManagedCursorInfo(cursorsLedgerId=-1)
    if in_ledger:
        info.cursorsLedgerId = cluster.ledger(topic_labels(name) | {"pulsar/cursor": "__compaction"})
        entry = pb.PositionInfo(ledgerId=1, entryId=2)
        entry.properties.add(name="CompactedTopicLedger", value=current)
        cluster.picture.add(references_of_cursor_entry(path, entry.SerializeToString(), is_last=True))
        gone = cluster.rng.randrange(2**33)
        info.properties.add(name="CompactedTopicLedger", value=gone)
    else:
        info.properties.add(name="CompactedTopicLedger", value=current)
    cluster.picture.add(references_of_cursor(path, info.SerializeToString()).references)


def add_schema(cluster: Cluster, schema_id: str) -> None:
    labels = pulsars("schema", schemaId=schema_id)
    exists = cluster.chance(0.7)
    versions = [cluster.ledger(labels, leaked=None if exists else "schema deleted") for _ in range(3)]
    entries = [
        pb.SchemaIndexEntry(version=at, position=pb.NestedPositionInfo(ledgerId=each, entryId=0), hash=b"h")
        for at, each in enumerate(versions)
    ]
    if not exists:
        return
    cluster.picture.schemas.add(schema_id)
    path = f"/schemas/{schema_id}"
    if cluster.chance(0.3):
        cluster.ledger(labels, leaked="version not in the schema")
    locator = pb.SchemaLocator(info=entries[-1], index=entries[1:])
    cluster.picture.add(references_of_schema(path, locator.SerializeToString()))
    older = pb.SchemaEntry(schema_data=b"", index=entries[:1]).SerializeToString()
    cluster.picture.add(references_of_schema_entry(path, older))


def random_cluster(seed: int) -> Cluster:
    cluster = Cluster(random.Random(seed))
    for number in range(8):
        add_topic(cluster, f"t/n/persistent/a+%25%C3%A4{number}" if number % 2 else f"t/n/persistent/b{number}")
        add_schema(cluster, f"t/n/s{number}")
    segment = cluster.ledger({})
    cluster.picture.add(references_of_log_segment("/pulsar/functions/x", b"21474836485;%d;7" % segment))
    for labels in ({}, {"Bookie": "simpletest"}, topic_labels("t/n/persistent/b0") | {"application": "other"}):
        cluster.used.discard(cluster.ledger(labels))
    return cluster


@pytest.mark.parametrize("seed", range(rounds(150)))
def test_every_leak_is_found_and_no_ledger_in_use_ever(seed: int) -> None:
    cluster = random_cluster(seed)
    judged = {each: judge(cluster.facts(each), cluster.picture, CAUTION) for each in cluster.ledgers}
    orphans = {each: judged[each].reason for each in judged if judged[each].verdict is Verdict.ORPHAN}
    assert not orphans.keys() & cluster.used
    assert orphans == cluster.leaked
    assert {each for each in judged if judged[each].verdict is Verdict.USED} == cluster.used
    dangling = cluster.picture.dangling(set(cluster.ledgers))
    assert {each.ledger_id for each in dangling} == cluster.lost


@pytest.mark.parametrize("seed", range(rounds(20)))
def test_what_a_record_that_cannot_be_read_may_name_is_kept(seed: int) -> None:
    cluster = random_cluster(seed)
    owners = {cluster.facts(each).owner for each in cluster.leaked}
    for owner in owners:
        picture = random_cluster(seed).picture
        picture.blind.append(BlindSpot("/a/record", owner, "damaged"))
        for each in cluster.leaked:
            verdict = judge(cluster.facts(each), picture, CAUTION).verdict
            same = cluster.facts(each).owner == owner
            assert verdict is (Verdict.UNREADABLE if same else Verdict.ORPHAN)


def test_a_blind_spot_covers_what_is_below_it_and_nothing_beside_it() -> None:
    assert BlindSpot("p", "t/n", "why").covers("t/n/persistent/x")
    assert BlindSpot("p", "", "why").covers("t/n/persistent/x")
    assert not BlindSpot("p", "t/n/persistent/x", "why").covers("t/n/persistent/xy")


def orphan(labels: dict[str, str], *, closed: bool = True, created_ms: int = OLD_MS) -> LedgerFacts:
    cluster = Cluster(random.Random(1))
    return cluster.facts(cluster.ledger(labels, leaked="", closed=closed), created_ms)


def test_young_ledgers_and_those_of_unknown_tenants_are_kept() -> None:
    labels = topic_labels("t/n/persistent/x")
    assert judge(orphan(labels), Picture(tenants={"t"}), CAUTION).verdict is Verdict.ORPHAN
    young = orphan(labels, created_ms=NOW_MS - 999)
    assert judge(young, Picture(tenants={"t"}), CAUTION).verdict is Verdict.YOUNG
    assert judge(orphan(labels), Picture(tenants={"u"}), CAUTION).verdict is Verdict.FOREIGN
    given = Caution(NOW_MS, 1000, all_clusters_given=True)
    assert judge(orphan(labels), Picture(tenants={"u"}), given).verdict is Verdict.ORPHAN


def test_an_open_ledger_is_kept_while_its_topic_has_a_record_or_an_owner() -> None:
    ledger = orphan(topic_labels("t/n/persistent/x"), closed=False)
    place = crc32(b"persistent://t/n/x")
    around, beside = OwnedBundle("t/n", place - 5, place + 5), OwnedBundle("t/n", place + 1, place + 5)
    known = Picture(tenants={"t"}, cursors={"t/n/persistent/x": set()})
    assert judge(ledger, known, CAUTION).verdict is Verdict.OPEN
    assert judge(ledger, Picture(tenants={"t"}, owned=[around]), CAUTION).verdict is Verdict.OPEN
    assert judge(ledger, Picture(tenants={"t"}, owned=[beside]), CAUTION).verdict is Verdict.ORPHAN
    assert judge(ledger, Picture(tenants={"t"}, owners_known=False), CAUTION).verdict is Verdict.OPEN
    pending = orphan(topic_labels("t/n/persistent/x-s__transaction_pending_ack"), closed=False)
    assert judge(pending, Picture(tenants={"t"}, owned=[beside]), CAUTION).verdict is Verdict.OPEN


def test_an_open_ledger_that_was_just_made_is_kept_even_without_a_grace_period() -> None:
    """A broker creates a ledger first, and then writes the record that names it."""
    now = Caution(NOW_MS, grace_ms=0)
    labels, nobody = topic_labels("t/n/persistent/x"), Picture(tenants={"t"})
    for age_ms, closed, verdict in (
        (0, False, Verdict.YOUNG),
        (CREATION_MS - 1, False, Verdict.YOUNG),
        (CREATION_MS, False, Verdict.ORPHAN),
        (0, True, Verdict.ORPHAN),
    ):
        assert judge(orphan(labels, closed=closed, created_ms=NOW_MS - age_ms), nobody, now).verdict is verdict


def test_a_record_without_data_is_damaged_and_a_label_without_names_is_unknown() -> None:
    empty = facts_of(7, ledger_path(7), b"", 0, OLD_MS)
    assert judge(empty, Picture(), CAUTION).verdict is Verdict.DAMAGED
    for labels in (pulsars("managed-ledger"), pulsars("new-component", schemaId="t/n/x"), topic_labels("x")):
        assert orphan(labels).component is Component.UNKNOWN
        assert judge(orphan(labels), Picture(tenants={"t"}), CAUTION).verdict is Verdict.UNKNOWN


def test_records_that_cannot_be_read_are_refused() -> None:
    bucket = pb.ManagedCursorInfo(cursorsLedgerId=-1)
    bucket.cursorProperties.add(name=f"{BUCKET_PROPERTY_PREFIX}_1_2", value="no number")
    for read, value in (
        (references_of_managed_ledger, b"\x0a\x05abc"),
        (references_of_cursor, b""),
        (references_of_cursor, bucket.SerializeToString()),
        (references_of_schema, b"\x0a"),
        (references_of_schema, b""),
        (references_of_schema_entry, b"\xff"),
    ):
        with pytest.raises(MalformedRecord):
            read("/a/record", value)


def test_a_ledger_that_is_being_offloaded_is_still_in_use() -> None:
    info = pb.ManagedLedgerInfo()
    info.ledgerInfo.add(ledgerId=1).offloadContext.uidMsb = 5
    info.ledgerInfo.add(ledgerId=2).offloadContext.MergeFrom(pb.OffloadContext(bookkeeperDeleted=True))
    info.ledgerInfo.add(ledgerId=3).offloadContext.complete = True
    found = references_of_managed_ledger("/p", info.SerializeToString())
    assert [(each.role, each.keeps) for each in found] == [
        (Role.MESSAGES, True),
        (Role.MESSAGES, True),
        (Role.OFFLOADED, True),
    ]
