"""What happens to packets from one node of a chaos network to another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LinkRule:
    """The state of one direction of a link."""

    is_cut: bool = False
    loss: float = 0.0
    """The share of packets that is lost, 0 to 1."""
    delay: float = 0.0
    """How many seconds each packet takes."""

    def joined(self, other: "LinkRule") -> "LinkRule":
        """Returns the rule of a direction on which both faults are."""
        return LinkRule(self.is_cut or other.is_cut, 1 - (1 - self.loss) * (1 - other.loss), self.delay + other.delay)

    def loses(self, drawn: float) -> bool:
        """Returns whether a packet is lost; `drawn` is random in [0, 1)."""
        return self.is_cut or drawn < self.loss


def rule_of(record: Mapping[str, Any]) -> LinkRule:
    """Parses what `dataclasses.asdict` made of a rule."""
    return LinkRule(bool(record["is_cut"]), float(record["loss"]), float(record["delay"]))
