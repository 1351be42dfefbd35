"""Everything that a test may do to a standalone server, as one object, which the program makes and the broker holds."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from magnetar.server.faults.fault_rules import FaultSet
from magnetar.server.faults.faulty_channel import FaultyChannel
from magnetar.server.faults.moved_clock import MovedClock
from magnetar.server.faults.partition import Partition
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.disks import DiskUsage, measure
from magnetar.storage.ledger.bookie_channel import BookieChannel

log = logging.getLogger(__name__)

FULL = DiskUsage(free_bytes=0, used_share=1.0)


class FaultInjection:
    """The faults of one server. The program sets `run_upkeep` when it has made the periodic work."""

    def __init__(self, bookie: Bookie) -> None:
        self.faults = FaultSet()
        self.clock = MovedClock()
        self.partition = Partition()
        """The way to the bookie. The program heals it before it stops the broker, whose last writes would wait else."""
        self.run_upkeep: Callable[[], Awaitable[None]]
        """Does at once what the periodic work would do at its next times, such as the expiry of messages."""
        self._bookie = bookie
        log.warning("tests may inject faults into this server: it is not for other use")

    @property
    def channel(self) -> BookieChannel:
        """The channel to the bookie, on which writes may fail, and which may be cut off."""
        return FaultyChannel(self._bookie, self.faults, self.partition)

    async def pretend_full_disk(self, is_full: bool) -> None:
        """Makes the bookie see a full disk, or the real disk again. Returns when the bookie has looked at the disk."""
        await self._bookie.maintenance.measure_disks_by(_measure_full if is_full else measure)


def _measure_full(directories: Sequence[str]) -> DiskUsage:
    return FULL
