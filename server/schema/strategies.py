"""The strategies by which versions of a schema follow each other. Source: SchemaCompatibilityStrategy."""

from enum import Enum


class CompatibilityStrategy(Enum):
    """A strategy says which older versions must be compatible with a new version, and in which direction. UNDEFINED
    stands for the strategy of the next level: for a topic the namespace's strategy, and for a namespace the broker's
    strategy."""

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
