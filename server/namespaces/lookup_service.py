"""Finds out which broker serves a topic, and takes or places bundles that no broker owns. The rules are in
`lookup_rules.py`.

Sources: NamespaceService.getBrokerServiceUrlAsync, findBrokerServiceUrl, searchForCandidateBroker.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from magnetar.server.namespaces import lookup_rules
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.lookup_rules import LookupAnswer, NextStep
from magnetar.server.namespaces.ownership import Ownership
from magnetar.server.namespaces.placement import Placement
from pulsar_proto.errors import MetadataFault, ServiceNotReady
from pulsar_proto.latency_summary import LatencySummary
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LookupCounters:
    """Counts the lookups of topics by their outcome, and how long they took."""

    answers: int = 0
    redirects: int = 0
    failures: int = 0
    latency: LatencySummary = field(default_factory=LatencySummary)


class LookupService:
    """The lookups of this broker. Simultaneous lookups of one bundle share one answer."""

    def __init__(
        self, ownership: Ownership, placement: Placement, preload: Callable[[BundleName], None] = lambda bundle: None
    ) -> None:
        """`preload(bundle)` begins to load the topics of a bundle."""
        self.ownership = ownership
        self.placement = placement
        self.counters = LookupCounters()
        self._preload = preload
        self._under_way: dict[tuple[BundleName, bool], asyncio.Task[LookupAnswer | None]] = {}

    async def find_topic(self, topic: TopicName, *, authoritative: bool = False, preload: bool = False) -> LookupAnswer:
        """Returns the answer of `find` for the bundle of a topic. With `preload`, if this lookup makes this broker the
        bundle's owner, the broker begins to load all topics of the bundle, because their clients are about to come."""
        began_s = time.monotonic()
        try:
            bundle = await self.ownership.bundle_of(topic)
            answer = _or_raise(await self._shared(bundle, authoritative, preload), topic.full)
        except Exception:
            self.counters.failures += 1
            raise
        self.counters.latency.add(time.monotonic() - began_s)
        if answer.is_redirect:
            self.counters.redirects += 1
        else:
            self.counters.answers += 1
        return answer

    def at_once(self, topic: TopicName) -> LookupAnswer | None:
        """Returns the answer of `find_topic` if a standalone server knows it without asking anybody, otherwise None. A
        thousand clients that come back look their topics up in one second."""
        began_s = time.monotonic()
        bundles = self.ownership.bundles.fresh(topic.namespace) if self.ownership.is_sole else None
        if bundles is None or not self.ownership.is_active(bundles.of_topic(topic.full)):
            return None
        self.counters.latency.add(time.monotonic() - began_s)
        self.counters.answers += 1
        return lookup_rules.connect(self.ownership.addresses)

    async def find(self, bundle: BundleName, *, authoritative: bool = False) -> LookupAnswer:
        """Returns the owner of the bundle, or the broker to ask next. Makes this broker the owner if the rules say so.
        Raises ServiceNotReady when no broker can own the bundle now, MetadataFault when the bundle is being unloaded,
        and other PulsarErrors when the metadata store fails."""
        return _or_raise(await self._shared(bundle, authoritative, preload=False), str(bundle))

    async def _shared(self, bundle: BundleName, authoritative: bool, preload: bool) -> LookupAnswer | None:
        if self.ownership.is_active(bundle):  # the usual case needs no task
            newer = await self._newer_make(bundle)
            if newer is not None:
                return newer
            if self.ownership.is_active(bundle):
                return lookup_rules.connect(self.ownership.addresses)
        key = bundle, authoritative
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._find(bundle, authoritative, preload))
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        # The cancellation of one caller must not end the work for the other callers.
        await asyncio.wait((task,))
        return task.result()

    async def _find(self, bundle: BundleName, authoritative: bool, preload: bool) -> LookupAnswer | None:
        await self.ownership.departures.wait(bundle)
        newer = await self._newer_make(bundle)
        if newer is not None:
            return newer
        owner = await self.ownership.owner_of(bundle)
        if owner is not None:
            return lookup_rules.connect(owner)
        answer = await self._decide(bundle, authoritative)
        if preload and answer is not None and not answer.is_redirect:
            self._preload(bundle)
        return answer

    async def _newer_make(self, bundle: BundleName) -> LookupAnswer | None:
        """Returns a redirect if the cluster is being moved to another load manager, otherwise None."""
        newer = None if lookup_rules.is_bound(bundle.namespace) else await self.placement.newer_make()
        return None if newer is None else lookup_rules.redirect(newer, is_decided=True)

    async def _decide(self, bundle: BundleName, authoritative: bool) -> LookupAnswer | None:
        """Returns the answer for a bundle that no broker owns, or None when no broker can own the bundle."""
        is_leader = self.placement.is_leader
        reserved = lookup_rules.reserved_for(bundle)
        if reserved is not None:
            broker_id, only_alive = reserved
            if broker_id == self.ownership.broker_id:
                return await self._take(bundle)
            broker = await self.placement.broker(broker_id)
            if broker is not None:
                return lookup_rules.redirect(broker, is_decided=is_leader)
            if not only_alive:
                raise MetadataFault(f"Broker {broker_id}, which alone may own {bundle}, is not registered")
        leader = None if authoritative or is_leader else await self.placement.leader()
        step = lookup_rules.next_step(
            authoritative=authoritative, is_leader=is_leader, leader_is_known=leader is not None
        )
        if step is NextStep.TAKE:
            return await self._take(bundle)
        if step is NextStep.ASK_LEADER:
            assert leader is not None, "a leader that is not known is not asked"
            if leader.broker_id == self.ownership.broker_id:
                return await self._take(bundle)
            return lookup_rules.redirect(leader, is_decided=False)
        chosen = await self.placement.choose(bundle)
        if chosen is None:
            return None
        if chosen.broker_id == self.ownership.broker_id:
            return await self._take(bundle)
        return lookup_rules.redirect(chosen, is_decided=True)

    async def _take(self, bundle: BundleName) -> LookupAnswer:
        await self.ownership.acquire(bundle)
        return lookup_rules.connect(self.ownership.addresses)


def _or_raise(answer: LookupAnswer | None, asked: str) -> LookupAnswer:
    if answer is None:
        raise ServiceNotReady(f"No broker was available to own {asked}")
    return answer
