"""The registry's counters for /metrics, by namespace. The metrics' names are those of Java's SchemaRegistryStats."""

from collections import defaultdict

from pulsar_proto.latency_summary import LatencySummary


class SchemaCounters:
    """Counts the registry's operations since the start of the process, by namespace. Namespaces that never used a
    schema do not appear."""

    def __init__(self) -> None:
        self.operations: dict[tuple[str, str], LatencySummary] = defaultdict(LatencySummary)
        """The operations by kind ("get", "put", "del") and namespace."""
        self.verdicts: dict[tuple[str, str], int] = defaultdict(int)
        """How many schemas were judged "compatible" or "incompatible", by verdict and namespace."""

    def got(self, schema_id: str, seconds: float) -> None:
        self.operations["get", _namespace(schema_id)].add(seconds)

    def put(self, schema_id: str, seconds: float) -> None:
        self.operations["put", _namespace(schema_id)].add(seconds)

    def deleted(self, schema_id: str, seconds: float) -> None:
        self.operations["del", _namespace(schema_id)].add(seconds)

    def judged(self, schema_id: str, *, compatible: bool) -> None:
        self.verdicts["compatible" if compatible else "incompatible", _namespace(schema_id)] += 1


def _namespace(schema_id: str) -> str:
    """Returns the part `tenant/namespace` of a schema id, which has the form `tenant/namespace/topic`."""
    return schema_id.rpartition("/")[0]
