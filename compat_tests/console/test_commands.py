"""The commands that the pages show beside their numbers do run, against the same server. `make pictures` has this test
make the pictures of docs/CONSOLE.md on its way."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from compat_tests.chromium import Page
from compat_tests.console.charts_seen import watch_charts
from compat_tests.console.shop import Shop, all_pages
from compat_tests.products import interpreter

COMMANDS = "[...document.querySelectorAll('.how-to code')].map((each) => each.textContent)"
ONLY_PARSED = re.compile(r"\b(?:TOPIC|SUBSCRIPTION)\b|magnetar (?:produce|read|bk) |--help")
"""Commands that stand for any topic, would change the topic, would not end, or need a cluster's metadata."""
FINDINGS = {"why": (0, 1), "check": (0, 1, 2)}
"""The exit codes of commands that tell by them what they found: something that stands in the way, a full disk."""
PICTURES = "MAGNETAR_PICTURES"
"""The variable that names the folder for pictures."""
CHARTS_ARE_LINES = """
!document.querySelector('.waiting') &&
[...document.querySelectorAll('.chart-frame')].every((each) => each.plot?.data[0].length > 3)
"""
PICTURE_WIDTH, PICTURE_HEIGHT_MAX = 1000, 820

pytestmark = pytest.mark.slow


def test_the_commands_that_the_pages_show_run(page: Page, shop: Shop) -> None:
    shown: set[str] = set()
    watch_charts(page)
    for at, (name, (url, is_there)) in enumerate(all_pages(shop).items()):
        page.colours("dark" if at % 3 == 2 else "light")
        page.open(url)
        page.wait(is_there, url)
        shown |= {line for line in page.value(COMMANDS) if line.startswith("magnetar ")}
        if folder := os.environ.get(PICTURES):
            take_picture(page, Path(folder) / f"{name}.png")
    assert len(shown) > 15
    for line in sorted(shown):
        words = [*shlex.split(line)[1:], *(["--help"] if ONLY_PARSED.search(line) else [])]
        done = subprocess.run(
            [*interpreter(), "-m", "magnetar", *words],
            env={**os.environ, "MAGNETAR_ADMIN_URL": shop.server.web_url},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode in FINDINGS.get(words[0], (0,)), f"{line}: {done.stderr}"


def take_picture(page: Page, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    page.wait(CHARTS_ARE_LINES, "charts")
    page.size(PICTURE_WIDTH, PICTURE_HEIGHT_MAX)
    height = min(int(page.value("document.documentElement.scrollHeight")), PICTURE_HEIGHT_MAX)
    page.size(PICTURE_WIDTH, height)
    path.write_bytes(page.screenshot())
    page.size(1280)
