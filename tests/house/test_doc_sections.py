"""References to docs/, both from the code and from docs/ itself, lead to pages and sections that exist."""

import re
from pathlib import Path

from tests.house.tree import ROOT, name_of, report, sources

PAGE = re.compile(r'docs/([A-Z_]+\.md)(?:, ("[^"]+"(?:(?:,| and) "[^"]+")*))?')
"""Matches a page with the sections that are named after it, if any: docs/LEDGERS.md, "Words" and "Writing"."""
LINK = re.compile(r"\]\(([A-Z_]+\.md)?#([^)]+)\)")
"""Matches a link in a page to a section of the same page or of another one."""


def titles(page: Path) -> list[str]:
    """Returns the titles of the page's sections."""
    return [line.lstrip("#").strip() for line in page.read_text().splitlines() if line.startswith("#")]


def anchor(title: str) -> str:
    """Returns what GitHub makes of a title for links."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def broken(text: str) -> list[str]:
    """Returns the references in a source text that lead nowhere. A reference may continue on the next line, also in a
    comment."""
    found = []
    for name, sections in PAGE.findall(" ".join(text.replace("\n", " ").replace(" # ", " ").split())):
        page = ROOT / "docs" / name
        if not page.exists():
            found.append(f"docs/{name}: there is no such page")
            continue
        known = titles(page)
        found += [
            f'docs/{name}: there is no section "{section}"'
            for section in re.findall(r'"([^"]+)"', sections)
            if section not in known
        ]
    return found


def test_pages_and_sections_that_the_code_names_are_there() -> None:
    here = name_of(Path(__file__))
    report(
        [f"{name_of(path)}: {what}" for path in sources() if name_of(path) != here for what in broken(path.read_text())]
    )


def test_links_between_pages_lead_to_sections() -> None:
    violations = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        for name, target in LINK.findall(page.read_text()):
            other = page.parent / name if name else page
            if not other.exists() or target not in map(anchor, titles(other)):
                violations.append(f"{name_of(page)}: the link {name}#{target} leads nowhere")
    report(violations)


def test_a_planted_reference_that_leads_nowhere_is_found() -> None:
    assert broken('see docs/LEDGERS.md, "Words" and\n"Writing"') == []
    assert broken('# see docs/LEDGERS.md,\n# "Words"') == []
    assert broken('docs/LEDGERS.md, "Nothing"') == ['docs/LEDGERS.md: there is no section "Nothing"']
    assert broken("docs/NOWHERE.md") == ["docs/NOWHERE.md: there is no such page"]
    assert anchor("States that outgrow an entry") == "states-that-outgrow-an-entry"
