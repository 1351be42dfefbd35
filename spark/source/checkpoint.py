"""Reads the checkpoint of a streaming query: the query's id, and the positions up to which it is committed.

The folders `offsets` and `commits` of a checkpoint hold one text file for each batch. A file of `offsets` has the
format's version, the batch's settings, and then one line for each source with the source's offset (Spark's OffsetSeqLog
and CommitLog).
"""

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

from magnetar.spark.source.client.named_subscription import NamedSubscription
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.options import ServiceAddress
from magnetar.spark.source.ranges.bounds import Bound, bounds_from_json

JOB_FILE = "magnetar-job"
"""The file in a checkpoint that names the job whose query this is. Spark has no such file, and leaves it alone."""
TABLE_FILE = "magnetar-table"
"""The file that is in a checkpoint as soon as its job has written rows to its table."""


class Checkpoint:
    """A checkpoint folder on this machine or on a mounted file system."""

    def __init__(self, location: str) -> None:
        """Takes a path or a `file:` URL. Raises ValueError for another URL."""
        parts = urlsplit(location)
        if parts.scheme not in ("", "file"):
            raise ValueError(f"checkpoint {location}: only local and mounted folders can be looked into")
        self.folder = Path(unquote(parts.path) if parts.scheme else location)

    def query_id(self) -> str:
        """Returns the id that Spark made with the checkpoint and that restarts keep. Raises FileNotFoundError before
        the query's first start."""
        return str(json.loads((self.folder / "metadata").read_text())["id"])

    def job(self) -> str:
        """Returns the name of the job that the checkpoint belongs to; empty for a query that is no job, and for a job
        of a version that did not write it down."""
        path = self.folder / JOB_FILE
        return path.read_text() if path.exists() else ""

    def begin(self, job: str) -> None:
        """Writes down that the checkpoint belongs to a job, unless the checkpoint says so already."""
        if self.job() != job:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / JOB_FILE).write_text(job)

    def has_written(self) -> bool:
        """Returns whether `wrote` was called before, in this run or in an earlier one."""
        return (self.folder / TABLE_FILE).exists()

    def wrote(self, table: str) -> None:
        """Writes down that the job has written rows to a table: a later run then expects the table."""
        if not self.has_written():
            (self.folder / TABLE_FILE).write_text(table)

    def sweep(self) -> None:
        """Removes the unfinished record that is left when the driver was killed while Spark wrote down the first batch:
        Spark 4.1 begins no query where such a file is (SPARK-53103). As soon as one batch has its record, nothing is
        removed."""
        if self._newest("offsets") < 0:
            for unfinished in (self.folder / "offsets").glob(".*.tmp*"):
                unfinished.unlink(missing_ok=True)

    def committed_batch(self) -> int:
        """Returns the number of the last committed batch, or -1 when no batch is committed."""
        return self._newest("commits")

    def committed(self) -> dict[str, Bound]:
        """Returns for each partition the last message that is committed, over all Pulsar sources of the query."""
        return self._bounds(self.committed_batch())

    def planned(self) -> dict[str, Bound]:
        """Returns for each partition the last message of the last planned batch. A restart runs that batch first."""
        return self._bounds(self._newest("offsets"))

    def _newest(self, log: str) -> int:
        """Returns the number of the last batch that the log has a record of, or -1 when the log is empty."""
        return max((int(path.name) for path in (self.folder / log).glob("*") if path.name.isdigit()), default=-1)

    def _bounds(self, batch: int) -> dict[str, Bound]:
        if batch < 0:
            return {}
        bounds: dict[str, Bound] = {}
        for line in (self.folder / "offsets" / str(batch)).read_text().splitlines()[2:]:
            offset = json.loads(line) if line.startswith("{") else None
            if isinstance(offset, dict) and all("://" in name for name in offset):
                bounds |= bounds_from_json(offset)
        return bounds


def acknowledge(address: ServiceAddress, subscription: str, bounds: dict[str, Bound]) -> None:
    """Acknowledges the committed messages on the named subscription. A query acknowledges a batch itself when it asks
    for the next one; after the last batch of `trigger(availableNow=True)` the query asks for no further batch, so the
    job calls this function."""
    client = PulsarClient(address.service_url, address.login)
    named = NamedSubscription(client, subscription)
    try:
        for topic, bound in bounds.items():
            named.acknowledge(topic, bound)
    finally:
        named.close()
        client.close()
