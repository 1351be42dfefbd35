"""What the tests of pages ask and do: cells of tables, large numbers, fields. Scripts are for `Page.value` and
`Page.wait`."""

import json

from compat_tests.chromium import Page

SHOWN_MESSAGES = "[...document.querySelectorAll('[data-message]')].map((each) => each.dataset.message)"
"""The script that lists the ids of the messages on the page."""


def cell(table: str, row: str, column: str) -> str:
    """Returns the script that reads a cell of a table."""
    found = f"[data-table={json.dumps(table)}] [data-row={json.dumps(row)}] [data-column={json.dumps(column)}]"
    return f"document.querySelector({json.dumps(found)})?.innerText"


def figure(name: str) -> str:
    """Returns the script that reads one of the large numbers of a page."""
    found = f"[data-figure={json.dumps(name)}] .value"
    return f"document.querySelector({json.dumps(found)})?.innerText"


def has(page: Page, script: str, wanted: str) -> None:
    page.wait(f"{script} === {json.dumps(wanted)}", f"{script} is {wanted!r}")


def fill(page: Page, name: str, text: str) -> None:
    """Writes into a field as a user does."""
    page.wait(f"document.querySelector('main [name={name}], dialog [name={name}]')", name)
    page.value(f"document.querySelector('main [name={name}], dialog [name={name}]').select()")
    if text:
        page.type(text)
    else:
        page.press("Delete")
