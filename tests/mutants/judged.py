"""Survivors that somebody looked at: each has its name and the reason why no test need notice it.

The file has paragraphs of lines: names of mutants, then a line that begins with `reason:`.
"""

from pathlib import Path

REASON = "reason:"
FILE = Path(__file__).with_name("judged.txt")


def read(text: str) -> dict[str, str]:
    """The reason of each name. Raises ValueError for a paragraph without one."""
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
