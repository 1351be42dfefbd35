"""Unloads the namespaces whose isolation policy has changed, so that the load manager places their bundles anew."""

import asyncio
import logging
from collections.abc import Sequence

from magnetar.server.admin.over_bundles import unload_everywhere
from magnetar.server.broker.broker import Broker
from magnetar.server.broker.broker_state import BrokerState
from magnetar.server.web.calls import Refusal
from pulsar_proto.errors import PulsarError

log = logging.getLogger(__name__)

RETRY_SECONDS = (2.0, 10.0, 60.0, 300.0)
"""The pauses before the next attempts to unload what could not be unloaded. An owner that was stopping or could not be
reached has another owner after these pauses, or answers again."""


async def unload_moved(broker: Broker, namespaces: Sequence[str], pauses: Sequence[float] = RETRY_SECONDS) -> None:
    """Unloads the namespaces, and returns when each was unloaded or refused. Those that were refused are tried again
    after the first of the `pauses`. A timer waits for that and not a task, because the end of a broker waits for its
    tasks."""
    refused = await _unload(broker, namespaces)
    if refused and pauses:
        asyncio.get_running_loop().call_later(pauses[0], _unload_again, broker, refused, pauses[1:])
    elif refused:
        log.warning(
            "%s: bundles stay at brokers that the changed isolation policy may forbid, until they are unloaded",
            ", ".join(refused),
        )


def _unload_again(broker: Broker, namespaces: Sequence[str], pauses: Sequence[float]) -> None:
    if broker.state is not BrokerState.CLOSING:
        broker.spawn(unload_moved(broker, namespaces, pauses))


async def _unload(broker: Broker, namespaces: Sequence[str]) -> list[str]:
    """Unloads the namespaces one after the other, and returns those that were refused."""
    refused = []
    for namespace in namespaces:
        try:
            await unload_everywhere(broker, namespace)
        except (Refusal, PulsarError) as error:
            log.warning("%s: not unloaded after its isolation policy changed: %s", namespace, error)
            refused.append(namespace)
    return refused
