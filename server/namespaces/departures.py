"""Lets callers wait until a bundle that is being given away is gone.

Apache's broker refuses such callers at once. Its clients try again after pauses that double each time; the more topics
a bundle has, the longer the clients stay away after the bundle has a new owner. A caller that waits here gets its
answer as soon as the bundle is gone.
"""

import asyncio

from magnetar.server.namespaces.bundle_name import BundleName

WAIT_SECONDS_MAX = 5.0
"""How long a caller waits. After that the caller is refused like at Apache's broker. Clients wait for an answer for 30
s."""


class Departures:
    """The bundles that are being given away. All calls are made on the loop's thread."""

    def __init__(self) -> None:
        self._ended: dict[BundleName, asyncio.Event] = {}
        self.wait_seconds_max = WAIT_SECONDS_MAX

    def __contains__(self, bundle: BundleName) -> bool:
        return bundle in self._ended

    def __len__(self) -> int:
        return len(self._ended)

    def begin(self, bundle: BundleName) -> None:
        self._ended.setdefault(bundle, asyncio.Event())

    def end(self, bundle: BundleName) -> None:
        """Wakes the callers that wait for the bundle. Has no effect when the bundle is not being given away."""
        ended = self._ended.pop(bundle, None)
        if ended is not None:
            ended.set()

    async def wait(self, bundle: BundleName) -> None:
        """Returns when the bundle is not being given away any more, or after `wait_seconds_max`."""
        ended = self._ended.get(bundle)
        if ended is None:
            return
        try:
            async with asyncio.timeout(self.wait_seconds_max):
                await ended.wait()
        except TimeoutError:
            pass
