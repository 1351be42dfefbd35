"""Says who refers to a ledger, or why nothing does, and the same of a record."""

from dataclasses import dataclass
from typing import Any

from magnetar.metadata.tree_rules import check_path
from magnetar.server.leaks.leak_errors import LeakRefusal
from magnetar.server.leaks.leak_report import ledger_fields, ledger_line
from magnetar.storage.leaks.finder import Look, Site
from magnetar.storage.leaks.orphan_rules import Caution, judge
from magnetar.storage.leaks.znode_reader import read_leftovers
from pulsar_proto.records.ledger_record import ledger_id_of_path

NUMBER_DIGITS_MAX = 20
"""A number of so many digits is no id of a ledger, which has 63 bits."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer, for programs and for people. `found` is True for a finding, and for what is not there."""

    fields: dict[str, Any]
    text: str
    found: bool


async def explain(site: Site, caution: Caution, subject: str) -> Explanation:
    """Explains a ledger by its id or the path of its record, or another record by its path. Raises LeakRefusal for a
    text that is neither, NotPulsar, MetadataError."""
    subject = subject.rstrip("/") or "/"
    try:
        ledger_id = _ledger_id(subject)
    except ValueError:
        raise LeakRefusal(f"{subject[:100]!r} is neither a ledger's id nor the path of a record") from None
    look = Look(site, caution)
    await look.take()
    return await _explain_path(site, look, subject) if ledger_id is None else await _explain_ledger(look, ledger_id)


def _ledger_id(subject: str) -> int | None:
    """Returns the id that a subject is, or that the path of a ledger's record has; None for another path. Raises
    ValueError for any other text."""
    if subject.isascii() and subject.isdecimal() and len(subject) < NUMBER_DIGITS_MAX:
        return int(subject)
    check_path(subject)
    return ledger_id_of_path(subject)


async def _explain_ledger(look: Look, ledger_id: int) -> Explanation:
    references = look.picture.references.get(ledger_id, [])
    named = [{"path": each.path, "role": str(each.role), "keeps": each.keeps} for each in references]
    lines = [f"  {each.path} names it: {each.role}{'' if each.keeps else ', deleted'}" for each in references]
    ledger = await look.facts(ledger_id)
    if ledger is None:
        lost = any(each.is_dangling_if_gone for each in references)
        verdict = "dangling reference" if lost else "gone"
        text = "is gone" + (", and its data are lost: a record still needs it" if lost else "")
        fields = {"ledgerId": ledger_id, "verdict": verdict, "references": named}
        return Explanation(fields, "\n".join([f"ledger {ledger_id} {text}", *lines]), True)
    judgement = judge(ledger, look.picture, look.caution)
    return Explanation(
        {**ledger_fields(ledger, judgement), "references": named},
        "\n".join([ledger_line(ledger, judgement), *lines]),
        judgement.is_finding,
    )


async def _explain_path(site: Site, look: Look, path: str) -> Explanation:
    leftovers = await read_leftovers(site.stores, site.configuration, site.ledgers, look.listed, look.caution)
    for leftover in leftovers:
        if any(node.path == path for node in leftover.nodes) or leftover.path == path:
            fields = {"path": path, "verdict": "left over", "reason": leftover.reason, "removable": leftover.removable}
            return Explanation(fields, f"{path} is left over: {leftover.reason}", True)
    references = [each for some in look.picture.references.values() for each in some if each.path == path]
    stores = [site.ledgers, *site.stores.values(), *site.configuration]
    is_there = any([await store.exists(path) is not None for store in stores])
    verdict = "in place" if is_there else "gone"
    lines = [f"  it names ledger {each.ledger_id}: {each.role}" for each in references]
    return Explanation(
        {"path": path, "verdict": verdict, "ledgers": [each.ledger_id for each in references]},
        "\n".join([f"{path} is {verdict}", *lines]),
        not is_there,
    )
