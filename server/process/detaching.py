"""Detaches the producers and consumers of a client that has left from their topics, many of them in portions.

To detach one takes 13 µs, so a client with thousands of topics would hold up all others when it leaves. While some
wait to be detached, nobody else is refused because of them: a topic that finds a name or a subscription taken asks the
client that has it whether it is alive (`ClientConnection.check_liveness`), and detaches what belongs to one that is
not.
"""

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from magnetar.server.process.turns import in_portions

log = logging.getLogger(__name__)

AT_ONCE_MAX = 100
"""So many are detached before `detach_all` returns."""


def detach_all(
    detaches: Sequence[Callable[[], object]], remote_address: str, spawn: Callable[[Coroutine[Any, Any, None]], object]
) -> None:
    """Calls `detaches`, each of which detaches one producer or consumer: the first ones at once, and the others soon,
    in a task that `spawn` starts. `remote_address` is the client's address, for the log."""
    for detach in detaches[:AT_ONCE_MAX]:
        _call(detach, remote_address)
    if len(detaches) > AT_ONCE_MAX:
        spawn(_detach_later(detaches[AT_ONCE_MAX:], remote_address))


async def _detach_later(detaches: Sequence[Callable[[], object]], remote_address: str) -> None:
    async for detach in in_portions(detaches):
        _call(detach, remote_address)


def _call(detach: Callable[[], object], remote_address: str) -> None:
    try:
        detach()
    except Exception:
        # A fault of one topic must not keep the client attached to the other topics.
        log.exception("%s: a producer or consumer could not be detached", remote_address)
