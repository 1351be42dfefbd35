"""Detaches the producers and consumers of a connection that has ended from their topics, many of them in portions.

To detach one takes 13 µs, so a client with thousands of topics would hold up all others when it leaves. While some
wait to be detached, nobody else is refused because of them: a topic that finds a name or a subscription taken asks the
connection whether it is alive (`check_liveness`), and detaches what belongs to one that has ended.
"""

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from magnetar.server.process.turns import in_portions

if TYPE_CHECKING:
    from magnetar.server.topics.publishing.producer import Producer
    from magnetar.server.topics.subscriptions.consumer import Consumer

log = logging.getLogger(__name__)

AT_ONCE_MAX = 100
"""So many are detached before this module returns to its caller."""


def detach_all(
    attached: "Sequence[Producer | Consumer]",
    remote_address: str,
    spawn: Callable[[Coroutine[Any, Any, None]], object],
) -> None:
    """Detaches the first ones at once, and the others soon, by a task that `spawn` starts. `remote_address` is for the
    log."""
    for each in attached[:AT_ONCE_MAX]:
        _detach(each, remote_address)
    if len(attached) > AT_ONCE_MAX:
        spawn(_detach_later(attached[AT_ONCE_MAX:], remote_address))


async def _detach_later(attached: "Sequence[Producer | Consumer]", remote_address: str) -> None:
    async for each in in_portions(attached):
        _detach(each, remote_address)


def _detach(attached: "Producer | Consumer", remote_address: str) -> None:
    try:
        attached.close()
    except Exception:
        # A fault of one topic must not keep the connection attached to the other topics.
        log.exception("%s: %s could not be detached", remote_address, attached)
