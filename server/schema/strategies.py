"""The strategies by which versions of a schema follow each other. Source: SchemaCompatibilityStrategy."""

from enum import Enum


class CompatibilityStrategy(Enum):
    """A strategy: which older versions must be compatible with a new one, and in which direction. UNDEFINED stands for
    the strategy of the next level: that of the namespace, then that of the broker."""

    UNDEFINED = "UNDEFINED"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")


STRATEGY_NAMES = tuple(each.value for each in CompatibilityStrategy)
