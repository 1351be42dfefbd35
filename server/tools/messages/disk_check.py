"""`check disk`: the disks below folders of this machine, those of bookies that serve HTTP, or that of a standalone
server."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any

from magnetar.server.tools.connection.http_client import AdminHttp
from magnetar.server.tools.messages.check_measures import FREE, USED
from magnetar.server.tools.messages.check_rules import Outcome, State, Thresholds

ANSWER_BYTES_MAX = 1 << 16
INFO_PATH = "/api/v1/bookie/info"
"""BookKeeper's HTTP call that tells the sizes of all ledger directories together (BookieInfoService)."""


def check_disk(
    outcome: Outcome,
    folders: Sequence[str],
    bookies: Sequence[str],
    thresholds: Thresholds,
    timeout_s: float,
    server: AdminHttp | None = None,
) -> None:
    """Adds how full the fullest of all disks is, and the smallest room that any of them has. Raises AdminCallError when
    `server` does not tell about its disk."""
    sizes: list[tuple[int, int]] = []
    if server is not None:
        sizes.append(_sizes_of(server.get(INFO_PATH).json()))
    for folder in folders:
        try:
            stat = os.statvfs(folder)
            # The blocks that only root may use count neither as used nor as free, as in df.
            used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize
            sizes.append((stat.f_bavail * stat.f_frsize, used + stat.f_bavail * stat.f_frsize))
        except OSError as error:
            outcome.fail(State.CRITICAL, f"{folder}: {error.strerror}")
    for bookie in bookies:
        try:
            sizes.append(_bookie_sizes(bookie, timeout_s))
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            outcome.fail(State.CRITICAL, f"{bookie}: {reason}")
    sizes = [(free, total) for free, total in sizes if total > 0]
    if sizes:
        free, total = min(sizes, key=lambda each: each[0] / each[1])
        outcome.add(USED, round(100 * (total - free) / total, 2), thresholds)
        outcome.add(FREE, min(each[0] for each in sizes), thresholds)


def _bookie_sizes(bookie: str, timeout_s: float) -> tuple[int, int]:
    """Returns the free and the total bytes of a bookie. Raises OSError, and others for an answer of another kind."""
    base = bookie if "://" in bookie else f"http://{bookie}"
    with urllib.request.urlopen(base.rstrip("/") + INFO_PATH, timeout=timeout_s) as answer:
        return _sizes_of(json.loads(answer.read(ANSWER_BYTES_MAX)))


def _sizes_of(told: Any) -> tuple[int, int]:
    return int(told["freeSpace"]), int(told["totalSpace"])
