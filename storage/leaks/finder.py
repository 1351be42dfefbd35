"""Looks for leaks: lists the ledgers, reads all references after that, and judges what is left.

The order makes the result safe: a ledger that is made during the look is not among the listed ones, and a reference
that is written during the look is read, because references are read later.
"""

from collections import Counter
from dataclasses import dataclass, field

from magnetar.metadata.paths import LEDGERS_ROOT, MANAGED_LEDGERS, POLICIES
from magnetar.metadata.store import MetadataStore
from magnetar.storage.leaks.entry_reader import EntryReader
from magnetar.storage.leaks.ledger_facts_rules import Component, LedgerFacts, facts_of
from magnetar.storage.leaks.orphan_rules import BlindSpot, Caution, Judgement, Picture, Verdict, judge
from magnetar.storage.leaks.record_reader import at_once, in_parts, read_references, read_tenants
from magnetar.storage.leaks.reference_rules import Reference
from magnetar.storage.leaks.znode_reader import read_leftovers
from magnetar.storage.leaks.znode_rules import Leftover
from magnetar.storage.ledger.ledger_listing import list_ledgers
from pulsar_proto.records.ledger_record import ledger_path


class NotPulsar(Exception):
    """Raised when a metadata store has no records of a Pulsar cluster, so that it would make every ledger an orphan."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where to look. `stores` are the metadata stores of all clusters whose ledgers stand below the ledgers' root, by
    the names that the operator gave them. `configuration` are the stores that have the tenants and namespaces."""

    stores: dict[str, MetadataStore]
    configuration: list[MetadataStore]
    ledgers: MetadataStore
    entries: EntryReader

    def store_of(self, name: str) -> MetadataStore:
        """Returns the store of this name; the empty name is that of the ledgers' store."""
        return self.stores[name] if name else self.ledgers


@dataclass(slots=True)
class Findings:
    """The result of one look."""

    ledgers: int = 0
    dangling: list[Reference] = field(default_factory=list)
    """References whose ledger is gone: data that are lost."""
    judged: list[tuple[LedgerFacts, Judgement]] = field(default_factory=list)
    """All ledgers that nothing keeps, in the order of their ids."""
    leftovers: list[Leftover] = field(default_factory=list)
    blind: list[BlindSpot] = field(default_factory=list)

    def with_verdict(self, *verdicts: Verdict) -> list[tuple[LedgerFacts, Judgement]]:
        return [each for each in self.judged if each[1].verdict in verdicts]

    @property
    def orphans(self) -> list[tuple[LedgerFacts, Judgement]]:
        return self.with_verdict(Verdict.ORPHAN)

    @property
    def counts(self) -> Counter[tuple[Verdict, str]]:
        return Counter((judgement.verdict, judgement.reason) for _, judgement in self.judged)

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing for the operator to do."""
        ledgers = any(judgement.is_finding for _, judgement in self.judged)
        return not (self.dangling or self.leftovers or self.blind or ledgers)


@dataclass(slots=True)
class Look:
    """One look at a site: the picture of the references, and the ledgers that were listed before it was taken."""

    site: Site
    caution: Caution
    listed: set[int] = field(default_factory=set)
    picture: Picture = field(default_factory=Picture)

    async def take(self) -> list[LedgerFacts]:
        """Takes the picture. Returns the facts about the ledgers that no record names; the picture may keep some of
        them all the same, by what entries name. Raises NotPulsar, MetadataError."""
        site = self.site
        await _check_stores(site)
        self.listed = await list_ledgers(site.ledgers)
        compactions = []
        for store in site.stores.values():
            compactions += await read_references(store, self.picture)
        for store in site.configuration:
            self.picture.tenants |= await read_tenants(store)
        unnamed = [each async for each in in_parts(sorted(self.listed)) if not self.picture.keeping(each)]
        facts = [each for each in await at_once(self.facts, unnamed) if each is not None]
        # A compaction closes its ledger just before the cursor's newest entry names it. Entries are read last, so that
        # a ledger whose record was read as closed is named by then; a ledger that was still open is kept anyway.
        await site.entries.add_compacted(self.picture, compactions)
        schemas = sorted({each.owner for each in facts if each.component is Component.SCHEMA})
        await site.entries.add_schemas(self.picture, schemas)
        return facts

    async def facts(self, ledger_id: int) -> LedgerFacts | None:
        """Returns the facts about a ledger; None when its record is gone."""
        path = ledger_path(ledger_id)
        record = await self.site.ledgers.get(path)
        if record is None:
            return None
        return facts_of(ledger_id, path, record.value, record.stat.version, record.stat.created_ms)

    async def missing(self) -> list[Reference]:
        """Returns the dangling references: the ledger is not there, and a second look at the records still names it."""
        named = self.picture.dangling(self.listed)
        stats = await at_once(lambda each: self.site.ledgers.exists(ledger_path(each.ledger_id)), named)
        gone = [reference for reference, stat in zip(named, stats, strict=True) if stat is None]
        if not gone:
            return []
        again = Picture()
        compactions = []
        for store in self.site.stores.values():
            compactions += await read_references(store, again)
        await self.site.entries.add_compacted(again, compactions)
        return [each for each in gone if each in again.references.get(each.ledger_id, ())]


async def find(site: Site, caution: Caution) -> Findings:
    """Looks at the whole site. Raises NotPulsar when a store is not that of a Pulsar cluster, and MetadataError."""
    look = Look(site, caution)
    unnamed = await look.take()
    judged = [(each, judge(each, look.picture, caution)) async for each in in_parts(unnamed)]
    return Findings(
        ledgers=len(look.listed),
        dangling=await look.missing(),
        judged=[each for each in judged if each[1].verdict is not Verdict.USED],
        leftovers=await read_leftovers(site.stores, site.configuration, site.ledgers, look.listed, caution),
        blind=look.picture.blind,
    )


async def _check_stores(site: Site) -> None:
    for name, store in site.stores.items():
        if await store.exists(MANAGED_LEDGERS) is None:
            raise NotPulsar(f"{name} has no {MANAGED_LEDGERS}: it is not a cluster's metadata store, or without topics")
    for store in site.configuration:
        if await store.exists(POLICIES) is None:
            raise NotPulsar(f"no {POLICIES} in the configuration metadata store: name it")
    if await site.ledgers.exists(LEDGERS_ROOT) is None:
        raise NotPulsar(f"no {LEDGERS_ROOT}: this is not the metadata store of a BookKeeper cluster")
