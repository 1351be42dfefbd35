"""Notes: messages with an amount of money, and the transfers that made them.

A note is a text of four words, `TRANSFER NUMBER INPUTS OUTPUTS`:

    c3-17 1 mint-2/0,c1-4/0 account-2=40,account-5=60

The transfer c3-17 spends the notes mint-2/0 and c1-4/0 and makes two notes; this one is its number 1, so its name is
c3-17/1 and it is worth 60 in account-5. Every note of a transfer holds the whole transfer, so a reader of one of them
knows what the others must be. A transfer that mints money has `-` in place of inputs.
"""

from dataclasses import dataclass
from typing import NamedTuple

NOTHING = "-"
ACCOUNTS = tuple(f"account-{number}" for number in range(8))
"""The accounts of the bank; the name of an account is also that of its topic."""


class Output(NamedTuple):
    account: str
    worth: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is spent and what is made. Inputs are names of notes."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]

    @property
    def notes(self) -> list[str]:
        """The names of the notes that it makes."""
        return [f"{self.name}/{number}" for number in range(len(self.outputs))]

    @property
    def worth(self) -> int:
        return sum(output.worth for output in self.outputs)

    def text(self, number: int) -> str:
        """Returns the text of one of its notes."""
        outputs = ",".join(f"{output.account}={output.worth}" for output in self.outputs)
        return f"{self.name} {number} {','.join(self.inputs) or NOTHING} {outputs}"


def parse(text: str) -> tuple[Transfer, int]:
    """Returns the transfer that a note holds, and the note's number. Raises ValueError."""
    name, number, inputs, outputs = text.split(" ")
    made = tuple(Output(account, int(worth)) for account, worth in (each.split("=") for each in outputs.split(",")))
    if not 0 <= int(number) < len(made):
        raise ValueError(f"{name} has no note {number}")
    return Transfer(name, () if inputs == NOTHING else tuple(inputs.split(",")), made), int(number)


def mint(account: str, count: int, worth: int) -> Transfer:
    """Returns the transfer that makes the first notes of an account."""
    return Transfer(f"mint-{account}", (), (Output(account, worth),) * count)
