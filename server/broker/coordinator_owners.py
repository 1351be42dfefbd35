"""Gives transaction coordinators that no broker runs a broker.

A coordinator runs where its partition's bundle belongs. A bundle whose owner died gets its next owner when somebody
looks one of its topics up, and possibly no client looks a coordinator up: its transactions would then neither time out
nor end. So the leader of a cluster looks up what nobody owns. Apache's broker leaves that to clients.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from magnetar.server.peers.peer_errors import PeerError
from magnetar.server.transactions.coordinators import ASSIGN_TOPIC, TransactionCoordinators
from pulsar_proto.errors import PulsarError

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How often the leader looks for coordinators that nobody runs."""


async def give_owners(broker: "Broker", coordinators: TransactionCoordinators) -> None:
    """Looks for coordinators that nobody runs again and again, until the task is cancelled."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if not broker.lookups.placement.is_leader or broker.peer_client is None:
            continue
        try:
            for coordinator_id in range(await coordinators.count()):
                await _give_owner(broker, coordinator_id)
        except (PulsarError, PeerError) as error:
            log.info("a transaction coordinator has no broker yet: %s", error)


async def _give_owner(broker: "Broker", coordinator_id: int) -> None:
    """Has the bundle of a coordinator acquired if nobody owns it. Raises PulsarError and PeerError."""
    partition, client = ASSIGN_TOPIC.partition(coordinator_id), broker.peer_client
    bundle = await broker.ownership.bundle_of(partition)
    if client is not None and await broker.ownership.owner_of(bundle) is None:
        owner = await client.lookup(partition)
        log.info("transaction coordinator %d was run by nobody, and is run by %s now", coordinator_id, owner.url)
