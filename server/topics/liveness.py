"""Frees what clients hold whose connections are dead, before a newcomer is refused because of them.

A client that lost its network comes back over a new connection while this broker still counts the old one, until the
keep-alive notices. Its place is then taken by itself. Apache's broker asks the old connection whether it is alive when
a producer's name, an Exclusive subscription or a hash range is taken (ServerCnx.checkConnectionLiveness); this broker
does so as well when producers or consumers are as many as policies allow, or exclude the newcomer by their kind.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from magnetar.server.topics.client_connection import ClientConnection

PROBED_MAX = 100
"""How many connections are asked for one newcomer. A dead one beyond them is found by its keep-alive."""


class Rival(Protocol):
    """A producer or consumer that is in a newcomer's way."""

    @property
    def cnx(self) -> ClientConnection: ...

    def close(self) -> object:
        """Detaches it from its topic. Idempotent."""


async def close_dead(rivals: Iterable[Rival], newcomer: ClientConnection) -> None:
    """Asks the connections of `rivals` whether they are alive, except for the newcomer's own, and closes the rivals
    whose connections are dead. Returns when all answered, or after `connectionLivenessCheckTimeoutMillis`. Meanwhile
    anything may change: callers decide about the newcomer afterwards."""
    theirs = [each for each in rivals if each.cnx is not newcomer]
    asked = islice(dict.fromkeys(each.cnx for each in theirs if each.cnx.is_open), PROBED_MAX)
    await asyncio.gather(*(cnx.check_liveness() for cnx in asked))
    for each in theirs:
        if not each.cnx.is_open:
            each.close()
