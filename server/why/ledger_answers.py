"""The ledgers of a topic, as JSON: which entries are where, what keeps each ledger, and which other ledgers the topic
has. Trimming goes by the same rule as this answer."""

from itertools import islice

from magnetar.server.process.turns import in_portions
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.topic import Topic
from magnetar.server.why.ledger_keeping_rules import KeptFacts, keeper_json
from magnetar.server.why.reasons import LISTED_MAX, Json
from magnetar.storage.managed.keeping_rules import CURSORS_TOLD_MAX, Keeper
from pulsar_proto.ids import I64_MAX, Position
from pulsar_proto.records.ledger_record import LedgerMetadata

CURSORS_MAX = 1_000
"""How many ledgers of cursors one answer tells about."""


async def topic_ledgers(topic: Topic, broker_id: str, waiting: list[int]) -> Json:
    """Returns the ledgers without their fragments, which stand in the metadata store. `waiting` are the ledgers that
    have left the topic and are not deleted yet."""
    ledger, config = topic.ledger, topic.ledger.config
    facts = KeptFacts(now_ms(), config.retention_ms, config.retention_bytes)
    kept = ledger.kept_ledgers()
    stats = ledger.stats()
    told: list[Json] = []
    async for each in in_portions(kept):
        is_current = each.info.ledger_id == stats.current_ledger_id
        told.append(
            {
                "ledgerId": each.info.ledger_id,
                "entries": stats.current_ledger_entries if is_current else each.info.entries,
                "sizeBytes": stats.current_ledger_size if is_current else each.info.size,
                "isOpen": is_current,
                "closedMs": each.info.closed_ms or None,
                "keptBy": [
                    keeper_json(keeper, facts, _not_passed(topic, each.info.ledger_id, keeper))
                    for keeper in each.keepers
                ],
                "keptByMoreCursors": max(0, each.cursors - CURSORS_TOLD_MAX),
            }
        )
    return {
        "topic": topic.name.full,
        "broker": broker_id,
        "entries": stats.entries,
        "sizeBytes": stats.size,
        "retentionMs": config.retention_ms,
        "retentionBytes": config.retention_bytes,
        "ledgers": told,
        "ledgersLeftOut": len(stats.ledgers) - len(kept),
        "cursorLedgers": [
            {"cursor": name, "ledgerId": cursor.ledger_id}
            for name, cursor in islice(ledger.cursors.items(), CURSORS_MAX)
            if cursor.ledger_id >= 0
        ],
        "compactedLedgerId": None if topic.compaction is None else topic.compaction.ledger_id,
        "readers": [
            {"subscription": each.name, "position": str(each.cursor.mark_delete)}
            for each in islice(topic.subscriptions.values(), LISTED_MAX)
            if not each.cursor.durable
        ],
        "waitingForDeletion": waiting,
    }


def _not_passed(topic: Topic, ledger_id: int, keeper: Keeper) -> int:
    """Returns how many entries of the ledger the keeper's cursor has not passed."""
    if keeper.need is None:
        return 0
    after = max(keeper.need.position, Position(ledger_id, -1))
    return topic.ledger.entries_between(after, Position(ledger_id, I64_MAX))


def fragments(metadata: LedgerMetadata, entries: int) -> Json:
    """Returns where the entries of a ledger are: the bookies of each fragment. `entries` is how many entries the ledger
    has, as its writer knows. The function does no I/O."""
    firsts = [first for first, _ in metadata.ensembles]
    lasts = [first - 1 for first in firsts[1:]] + [max(entries - 1, firsts[-1] - 1) if firsts else -1]
    return {
        "state": metadata.state.name,
        "ensembleSize": metadata.ensemble_size,
        "writeQuorum": metadata.write_quorum,
        "ackQuorum": metadata.ack_quorum,
        "fragments": [
            {"firstEntry": first, "lastEntry": last, "entries": last - first + 1, "bookies": list(bookies)}
            for (first, bookies), last in zip(metadata.ensembles, lasts, strict=True)
        ],
    }
