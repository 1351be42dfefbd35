"""Records what a watch heard, for the tests of watches."""

import asyncio

from magnetar.metadata.store import EventType, RecordEvent

DEADLINE_SECONDS = 60.0


class Recorder:
    """A watch callback that keeps the events and can be awaited."""

    def __init__(self) -> None:
        self.events: list[RecordEvent] = []
        self._grew = asyncio.Event()

    def __call__(self, event: RecordEvent) -> None:
        self.events.append(event)
        self._grew.set()

    async def until(self, *expected: tuple[EventType, str]) -> None:
        """Returns when exactly these events have come, in this order."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(self.events) < len(expected):
                self._grew.clear()
                await self._grew.wait()
        assert [tuple(event) for event in self.events] == list(expected)
