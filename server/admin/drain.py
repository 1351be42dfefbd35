"""Empties a broker before it is stopped: the broker's bundles go to other brokers at the rate that the operator names.

Source: BrokersBase.doShutDownBrokerGracefullyAsync, BrokerService.unloadNamespaceBundlesGracefully.
"""

import asyncio
import logging

from magnetar.metadata.errors import MetadataError
from magnetar.server.broker.broker import Broker
from magnetar.server.namespaces.bundle_name import heartbeat_broker

log = logging.getLogger(__name__)


async def drain_and_stop(broker: Broker, bundles_per_second: int) -> None:
    """Asks the process to stop. With a rate above 0, a broker of a cluster first leaves the list of brokers and gives
    its bundles away at that rate, except those for health checks. The stop itself then gives the remaining bundles
    away."""
    if bundles_per_second > 0 and not broker.ownership.is_sole:
        broker.ownership.take_no_more()
        try:
            if broker.load is not None:
                await broker.load.unregister()
        except MetadataError as error:
            log.warning("the registration is left to the end of the session: %s", error)
        for bundle in broker.ownership.owned_bundles():
            if heartbeat_broker(bundle.namespace) is None:
                broker.spawn(broker.moves.unload_all((bundle,)))
                await asyncio.sleep(1 / bundles_per_second)
    broker.ask_to_stop()
