"""Stores the open windows and counts of a window job, in a folder for each batch inside the query's checkpoint.

A batch reads the folder of the batch before it and writes a folder of its own, so that a repeated batch begins with the
same state as the first attempt. The file `meta.json` is written last, so a folder is complete when it has this file.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from magnetar.spark.jobs.job_outcome import JobFailed

STATES_KEPT = 3
FOLDER = "magnetar-windows"


@dataclass(frozen=True, slots=True)
class WindowMeta:
    """The facts that are stored beside a batch's open windows. The counts are over all batches up to this one."""

    rules: str = ""
    """The rules by which the windows were made, see `WindowShape.rules`."""
    watermark_ms: int | None = None
    """The watermark in milliseconds; None before the first row."""
    on_time: int = 0
    late: int = 0
    parked: int = 0
    placed: int = 0
    """The number of on-time rows. A row counts once for each of its windows."""
    closed: int = 0
    """The number of on-time rows in closed windows. A row counts once for each of these windows."""
    closed_windows: int = 0


class WindowStates:
    """The states of a query, in the folder of the query's checkpoint. `rules` are the rules of this run, see
    `WindowShape.rules`."""

    def __init__(self, checkpoint: Path, rules: str) -> None:
        self._folder = checkpoint / FOLDER
        self._rules = rules

    def _of(self, number: int) -> Path:
        return self._folder / f"{number:08d}"

    def meta(self, number: int) -> WindowMeta:
        """Returns the counts up to a batch. Raises JobFailed when the state is gone, or when the state's windows were
        made by other rules."""
        if number < 0:
            return WindowMeta(self._rules)
        path = self._of(number) / "meta.json"
        if not path.exists():
            raise JobFailed(f"{path} is gone: the state of batch {number} cannot be made anew, begin a new checkpoint")
        meta = WindowMeta(**json.loads(path.read_text()))
        if meta.rules != self._rules:
            raise JobFailed(f"the checkpoint's windows were made with '{meta.rules}', these are '{self._rules}'")
        return meta

    def open_windows(self, spark: SparkSession, number: int) -> DataFrame | None:
        """Returns the windows that were open after a batch, None before the first batch."""
        return None if number < 0 else spark.read.parquet(str(self._of(number) / "open"))

    def save(self, number: int, still_open: DataFrame, meta: WindowMeta) -> None:
        """Writes the state after a batch, and removes all but the newest STATES_KEPT states."""
        folder = self._of(number)
        still_open.coalesce(1).write.mode("overwrite").parquet(str(folder / "open"))
        building = folder / "meta.building"
        building.write_text(json.dumps(asdict(meta)))
        building.rename(folder / "meta.json")
        for old in self._folder.iterdir():
            if old.name.isdigit() and int(old.name) <= number - STATES_KEPT:
                shutil.rmtree(old, ignore_errors=True)
