"""Survivors that somebody has looked at: each is listed with its name and the reason why no test need notice it.

The file consists of paragraphs. Each has lines with names of mutants, and a last line that begins with `reason:`.
"""

from pathlib import Path

REASON = "reason:"
FILE = Path(__file__).with_name("judged.txt")


def read(text: str) -> dict[str, str]:
    """Returns the reason for each name. Raises ValueError when a paragraph has no reason."""
    judged: dict[str, str] = {}
    for paragraph in text.split("\n\n"):
        lines = [line.strip() for line in paragraph.splitlines() if line.strip() and not line.startswith("#")]
        if not lines:
            continue
        at = next((number for number, line in enumerate(lines) if line.startswith(REASON)), None)
        if not at:
            raise ValueError(f"names first, then a line with {REASON} {paragraph[:200]}")
        reason = " ".join([lines[at].removeprefix(REASON).strip(), *lines[at + 1 :]])
        judged |= dict.fromkeys(lines[:at], reason)
    return judged
