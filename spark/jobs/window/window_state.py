"""Open windows and counts of a window job, a folder a batch inside the query's checkpoint.

A batch reads the folder of the batch before and writes its own, so that a batch which is repeated begins with the same
state again. A folder counts when its `meta.json` is there, which comes last.
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
    """Beside a batch's open windows. Counts are of all batches up to this one."""

    rules: str = ""
    """How windows are made: see `WindowShape.rules`."""
    watermark_ms: int | None = None
    """None: before the first row."""
    on_time: int = 0
    late: int = 0
    parked: int = 0
    placed: int = 0
    """On-time rows, as often as they have windows."""
    closed: int = 0
    """Rows in closed windows, counted the same way."""
    closed_windows: int = 0


class WindowStates:
    """`checkpoint`: the query's folder."""

    def __init__(self, checkpoint: Path, rules: str) -> None:
        self._folder = checkpoint / FOLDER
        self._rules = rules

    def _of(self, number: int) -> Path:
        return self._folder / f"{number:08d}"

    def meta(self, number: int) -> WindowMeta:
        """Raises JobFailed when it is gone, or of windows that were made otherwise."""
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
        """None before the first batch."""
        return None if number < 0 else spark.read.parquet(str(self._of(number) / "open"))

    def save(self, number: int, still_open: DataFrame, meta: WindowMeta) -> None:
        folder = self._of(number)
        still_open.coalesce(1).write.mode("overwrite").parquet(str(folder / "open"))
        building = folder / "meta.building"
        building.write_text(json.dumps(asdict(meta)))
        building.rename(folder / "meta.json")
        for old in self._folder.iterdir():
            if old.name.isdigit() and int(old.name) <= number - STATES_KEPT:
                shutil.rmtree(old, ignore_errors=True)
