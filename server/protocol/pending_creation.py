"""A producer or consumer that is being created."""

import asyncio


class PendingCreation:
    """Its creation runs to the end in any case, so that no topic is left half changed. If the client closed it
    meanwhile, or left, it is abandoned, and what comes of it is closed at once."""

    __slots__ = ("abandoned", "waiting")

    def __init__(self) -> None:
        self.abandoned = False
        self.waiting: asyncio.Task[object] | None = None
        """The task of a creation that may wait for other clients without end; this one is cancelled."""

    def abandon(self) -> None:
        self.abandoned = True
        if self.waiting is not None:
            self.waiting.cancel()
