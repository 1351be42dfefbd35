"""The registry's counters for /metrics, by namespace. The metrics' names are those of Java's SchemaRegistryStats."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Operations:
    """How many operations of one kind there were, and how long they took together."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds


class SchemaCounters:
    """Counts since the start of the process. Namespaces that never used a schema do not appear."""

    def __init__(self) -> None:
        self._operations: dict[tuple[str, str], Operations] = defaultdict(Operations)
        self._verdicts: dict[tuple[str, str], int] = defaultdict(int)

    def got(self, schema_id: str, seconds: float) -> None:
        self._operations["get", _namespace(schema_id)].add(seconds)

    def put(self, schema_id: str, seconds: float) -> None:
        self._operations["put", _namespace(schema_id)].add(seconds)

    def deleted(self, schema_id: str, seconds: float) -> None:
        self._operations["del", _namespace(schema_id)].add(seconds)

    def judged(self, schema_id: str, *, compatible: bool) -> None:
        self._verdicts["compatible" if compatible else "incompatible", _namespace(schema_id)] += 1

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Yields (metric, namespace, value): the operations with the milliseconds that they took, and how many schemas
        were compatible or not."""
        for (name, namespace), operations in sorted(self._operations.items()):
            yield f"pulsar_schema_{name}_ops_latency_count", namespace, operations.count
            yield f"pulsar_schema_{name}_ops_latency_sum", namespace, operations.seconds * 1000
        for (name, namespace), count in sorted(self._verdicts.items()):
            yield f"pulsar_schema_{name}_total", namespace, count


def _namespace(schema_id: str) -> str:
    """Returns `tenant/namespace` of a schema id, which is `tenant/namespace/topic`."""
    return schema_id.rpartition("/")[0]
