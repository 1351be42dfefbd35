"""The registry's counters for /metrics, by namespace. The metrics' names are those of Java's SchemaRegistryStats."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Operations:
    """Counts the operations of one kind, and adds up how long these operations took."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds


class SchemaCounters:
    """Counts the registry's operations since the start of the process, by namespace. Namespaces that never used a
    schema do not appear."""

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
        """Yields (metric, namespace, value): the number of operations, the milliseconds that the operations took, and
        the numbers of compatible and of incompatible schemas."""
        for (name, namespace), operations in sorted(self._operations.items()):
            yield f"pulsar_schema_{name}_ops_latency_count", namespace, operations.count
            yield f"pulsar_schema_{name}_ops_latency_sum", namespace, operations.seconds * 1000
        for (name, namespace), count in sorted(self._verdicts.items()):
            yield f"pulsar_schema_{name}_total", namespace, count


def _namespace(schema_id: str) -> str:
    """Returns the part `tenant/namespace` of a schema id, which has the form `tenant/namespace/topic`."""
    return schema_id.rpartition("/")[0]
