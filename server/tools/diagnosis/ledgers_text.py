"""Prints the answer to `…/ledgers` for people. Does no I/O."""

from collections.abc import Iterator, Mapping
from typing import Any

from magnetar.server.tools.diagnosis.printable import joined
from pulsar_proto.counted import counted

BOOKIES_SHOWN_MAX = 8


def ledgers_text(answer: Mapping[str, Any]) -> str:
    """Returns the lines for a topic, or for all partitions of a partitioned topic."""
    partitions = answer.get("partitions")
    if partitions is None:
        return joined(_topic(answer))
    return "\n\n".join(joined(_topic(each)) for each in partitions.values())


def _topic(answer: Mapping[str, Any]) -> Iterator[str]:
    if "error" in answer:
        yield f"{answer['topic']}: {answer['error']}"
        return
    yield f"{answer['topic']} at broker {answer['broker']}: {_what(answer)}"
    for ledger in answer["ledgers"]:
        yield from _ledger(ledger)
    if answer["ledgersLeftOut"]:
        yield f"  {answer['ledgersLeftOut']} later ledgers are left out"
    for each in answer["cursorLedgers"]:
        yield f"  ledger {each['ledgerId']}: the state of cursor {each['cursor']}"
    if answer["compactedLedgerId"] is not None:
        yield f"  ledger {answer['compactedLedgerId']}: the compacted messages"
    for ledger_id in answer.get("schemaLedgers", ()):
        yield f"  ledger {ledger_id}: a schema"
    for each in answer["readers"]:
        yield f"  reader {each['subscription']} stands at {each['position']}; readers keep no ledger"
    if answer["waitingForDeletion"]:
        yield f"  left the topic, and are being deleted: {', '.join(map(str, answer['waitingForDeletion']))}"


def _ledger(ledger: Mapping[str, Any]) -> Iterator[str]:
    state = "open" if ledger["isOpen"] else "closed"
    yield f"  ledger {ledger['ledgerId']}: {_what(ledger)}, {state}"
    if "fault" in ledger:
        yield f"    fault: {ledger['fault']}"
    for each in ledger.get("fragments", ()):
        bookies = ", ".join(each["bookies"][:BOOKIES_SHOWN_MAX])
        yield f"    {_range(each)}: {bookies} (write {ledger['writeQuorum']}, ack {ledger['ackQuorum']})"
    for keeper in ledger["keptBy"]:
        yield f"    kept: {keeper['sentence']} [{keeper['by']}]"
    if ledger["keptByMoreCursors"]:
        have = counted(ledger["keptByMoreCursors"], "more cursor has", "more cursors have")
        yield f"    kept: {have} not passed it [cursor]"
    if not ledger["keptBy"]:
        yield "    nothing keeps it: the next trim deletes it"


def _range(fragment: Mapping[str, Any]) -> str:
    if not fragment["entries"]:
        return "entries to come"
    first, last = fragment["firstEntry"], fragment["lastEntry"]
    return f"entry {first}" if first == last else f"entries {first} to {last}"


def _what(held: Mapping[str, Any]) -> str:
    """Returns how many entries and bytes a topic or a ledger has."""
    return f"{counted(held['entries'], 'entry', 'entries')}, {_size(held['sizeBytes'])}"


def _size(size_bytes: int) -> str:
    """Returns the size in the largest unit that leaves a number above 1."""
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
