"""What a streaming query's checkpoint says: its id, and up to where it is committed.

The log's files are text: a version, the batch's settings, then one offset a source (Spark's OffsetSeqLog, CommitLog).
"""

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

from magnetar.spark.source.client.named_subscription import NamedSubscription
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.options import ServiceAddress
from magnetar.spark.source.ranges.bounds import Bound, bounds_from_json


class Checkpoint:
    """A checkpoint folder on this machine or on a mounted file system."""

    def __init__(self, location: str) -> None:
        """A path or a `file:` URL."""
        parts = urlsplit(location)
        if parts.scheme not in ("", "file"):
            raise ValueError(f"checkpoint {location}: only local and mounted folders can be looked into")
        self.folder = Path(unquote(parts.path) if parts.scheme else location)

    def query_id(self) -> str:
        """Made with the checkpoint, and kept by restarts. Raises FileNotFoundError before the first start."""
        return str(json.loads((self.folder / "metadata").read_text())["id"])

    def sweep(self) -> None:
        """Removes the nameless record that a kill leaves in the moment in which the first batch is written down: Spark
        4.1 begins no query where such a file is (SPARK-53103). Once a batch has its record nothing is touched."""
        if self._newest("offsets") < 0:
            for unfinished in (self.folder / "offsets").glob(".*.tmp*"):
                unfinished.unlink(missing_ok=True)

    def committed_batch(self) -> int:
        """-1: none."""
        return self._newest("commits")

    def committed(self) -> dict[str, Bound]:
        """By partition, the last message of the last committed batch, over all pulsar sources of the query."""
        return self._bounds(self.committed_batch())

    def planned(self) -> dict[str, Bound]:
        """The same of the last batch that was planned, which a restart does first."""
        return self._bounds(self._newest("offsets"))

    def _newest(self, log: str) -> int:
        """The last batch with a record; -1: none."""
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
    """Tells the named subscription what is committed. A query does so itself whenever it asks for its next batch; after
    the last batch of `trigger(availableNow=True)` there is no next one."""
    client = PulsarClient(address.service_url, address.login)
    named = NamedSubscription(client, subscription)
    try:
        for topic, bound in bounds.items():
            named.acknowledge(topic, bound)
    finally:
        named.close()
        client.close()
