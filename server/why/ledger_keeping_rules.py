"""Says in words what keeps a ledger of a topic and when that ends. `storage/managed/keeping_rules` decides what keeps
it."""

from dataclasses import dataclass

from magnetar.server.why.reasons import Json, duration, entries, moment
from magnetar.storage.managed.keeping_rules import Keeper, KeptBy
from pulsar_proto.ids import Position

HOLDERS = {
    "pulsar.dedup": "The snapshot of deduplication (cursor pulsar.dedup)",
    "__compaction": "Compaction (cursor __compaction)",
}
"""What the topic's own cursors stand for. Every other cursor is a subscription's."""


@dataclass(frozen=True, slots=True)
class KeptFacts:
    """What the sentences about one ledger need to know besides its keepers."""

    now_ms: int
    retention_ms: int
    retention_bytes: int
    """The retention that holds; negative stands for no limit."""


def keeper_json(keeper: Keeper, facts: KeptFacts, entries_left: int) -> Json:
    """Returns one keeper of a ledger. `entries_left` is how many entries of the ledger the keeper's cursor has not
    passed."""
    told: Json = {"by": keeper.by.value, "sentence": _sentence(keeper, facts, entries_left)}
    if keeper.need is not None:
        told |= {
            "cursor": keeper.need.name,
            "position": str(keeper.need.position),
            "entriesNotPassed": entries_left,
        }
    if keeper.until_ms is not None:
        told["untilMs"] = keeper.until_ms
    if keeper.bytes_missing is not None:
        told["bytesMissing"] = keeper.bytes_missing
    if keeper.by is KeptBy.EARLIER:
        told["earlierLedgerId"] = keeper.earlier_id
    return told


def _sentence(keeper: Keeper, facts: KeptFacts, entries_left: int) -> str:
    match keeper.by:
        case KeptBy.CURRENT:
            return "Messages are written to it; it may go some time after the next ledger has begun."
        case KeptBy.LAST:
            return "There is no subscription, so the last ledger stays for readers until there is a next one."
        case KeptBy.EARLIER:
            return f"Nothing but ledger {keeper.earlier_id} keeps it: ledgers go from the first one on."
        case KeptBy.END:
            return f"The topic was terminated a short time ago; its last ledger stays until {_until(keeper, facts)}."
        case KeptBy.RETENTION:
            return _retention(keeper, facts)
        case KeptBy.CURSOR:
            assert keeper.need is not None
            return _cursor(keeper.need.name, keeper.need.position, entries_left)


def _cursor(name: str, position: Position, entries_left: int) -> str:
    who = HOLDERS.get(name, f"Subscription {name}")
    if not entries_left:
        return f"{who} stands at {position} and needs the log from there on."
    return f"{who} stands at {position} and has not passed {entries(entries_left)} of it."


def _retention(keeper: Keeper, facts: KeptFacts) -> str:
    ends = []
    if keeper.until_ms is not None:
        ends.append(f"at {_until(keeper, facts)}")
    if keeper.bytes_missing is not None:
        ends.append(f"when {keeper.bytes_missing} more bytes follow ({facts.retention_bytes} bytes are retained)")
    if not ends:
        return "Retention keeps it for ever: neither a time nor a size is set that would end that."
    return f"Retention keeps it; that ends {' or '.join(ends)}."


def _until(keeper: Keeper, facts: KeptFacts) -> str:
    assert keeper.until_ms is not None
    left = duration((keeper.until_ms - facts.now_ms) / 1000)
    return f"{moment(keeper.until_ms)}, in {left}"
