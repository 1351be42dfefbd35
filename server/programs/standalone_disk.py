"""Tells how much room a standalone server has, and when it refuses writes. Only REST calls use it, so this module is
imported with the routes."""

import asyncio
from typing import Any

from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.disks import file_systems, space_of, usage_of
from magnetar.storage.bookie.reserve import Reserve


class StandaloneDisk:
    """The disks of one server's folders."""

    def __init__(self, bookie: Bookie, config: BookieConfig) -> None:
        self._bookie = bookie
        self._config = config
        self._folders = tuple(map(str, (*config.journal_directories, *config.ledger_directories)))

    async def __call__(self, bookie_id: str) -> dict[str, Any]:
        """Returns the answer of `GET /api/v1/bookie/info`; the server has one bookie, whatever the id is. Raises
        OSError when the disks cannot be measured."""
        total, free, used_share, reserve_bytes = await asyncio.to_thread(self._measure)
        return {
            "freeSpace": free,
            "totalSpace": total,
            "usedShare": used_share,
            "diskUsageWarnThreshold": self._config.disk_usage_warn_threshold,
            "diskUsageThreshold": self._config.disk_usage_threshold,
            "diskUsageLwmThreshold": self._config.disk_usage_lwm_threshold,
            "reservedSpace": reserve_bytes,
            "refusesWritesBecause": self._bookie.hindrance,
        }

    def _measure(self) -> tuple[int, int, float, int]:
        systems = file_systems(self._folders)
        return (*space_of(systems), usage_of(systems).used_share, Reserve(self._folders).held_bytes())
