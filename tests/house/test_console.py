"""The rules of the house for the console's files, which are JavaScript and CSS. Each violation is one line."""

import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from compat_tests.unavailable import unavailable
from tests.house.tree import ROOT, name_of, report

STATIC = ROOT / "server/console/static"
VENDORED = STATIC / "vendor"
FILE_LINES_MAX = 400
LINE_CHARACTERS_MAX = 140
"""Longer than a line of Python may be, because a line of a template is better whole."""
FUNCTION_LINES_MAX = 70
VENDORED_BYTES_MAX = 150_000

FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\b|new Function|srcdoc"
    r"|setAttribute\(\s*[\"']on|javascript:|localStorage|document\.cookie"
)
"""Ways in which a text of a stranger could become markup or a script, and places that would keep a login for longer
than its tab is open. Texts become text nodes, by Preact."""
OF_THE_PAGE = re.compile(r"\b(?:document|window|fetch|location|sessionStorage|setTimeout|setInterval|Date\.now)\b")
"""What rules do not touch: the page, the network and the clock."""
PARSE = """
const { readFileSync } = require("fs");
const { SourceTextModule } = require("vm");
for (const file of process.argv.slice(1)) new SourceTextModule(readFileSync(file, "utf8"), { identifier: file });
"""
FUNCTION = re.compile(r"^(?:export )?(?:async )?function (\w+)")


def scripts() -> list[Path]:
    return sorted(path for path in STATIC.rglob("*.js") if path.parent != VENDORED)


def styles() -> list[Path]:
    return sorted(path for path in STATIC.rglob("*.css") if path.parent != VENDORED)


def test_the_files_have_one_responsibility_s_length_and_lines_that_can_be_read() -> None:
    violations = []
    for path in (*scripts(), *styles()):
        lines = path.read_text().splitlines()
        if len(lines) > FILE_LINES_MAX:
            violations.append(f"{name_of(path)}: {len(lines)} lines, at most {FILE_LINES_MAX}")
        violations += [
            f"{name_of(path)}:{number}: {len(line)} characters, at most {LINE_CHARACTERS_MAX}"
            for number, line in enumerate(lines, start=1)
            if len(line) > LINE_CHARACTERS_MAX
        ]
    report(violations)


def test_functions_fit_a_screen() -> None:
    violations = []
    for path in scripts():
        name, began = "", 0
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if found := FUNCTION.match(line):
                name, began = found[1], number
            elif line == "}" and name:
                if number - began >= FUNCTION_LINES_MAX:
                    violations.append(f"{name_of(path)}:{began}: {name} has {number - began + 1} lines")
                name = ""
    report(violations)


def test_files_say_what_they_are_for() -> None:
    report([f"{name_of(path)}:1: no comment that says what it is for" for path in scripts() if not _is_told(path)])


def _is_told(path: Path) -> bool:
    return path.read_text().startswith("// ")


def test_no_text_of_a_stranger_becomes_markup_and_no_login_is_kept() -> None:
    report(
        [
            f"{name_of(path)}:{number}: {found[0]}"
            for path in (*scripts(), STATIC / "index.html")
            for number, line in enumerate(path.read_text().splitlines(), start=1)
            if (found := FORBIDDEN.search(line))
        ]
    )


def test_rules_touch_neither_the_page_nor_the_network_nor_the_clock() -> None:
    report(
        [
            f"{name_of(path)}:{number}: {found[0]}"
            for path in scripts()
            if path.name.endswith("_rules.js")
            for number, line in enumerate(path.read_text().splitlines(), start=1)
            if not line.startswith("//") and (found := OF_THE_PAGE.search(line))
        ]
    )


@pytest.mark.process
def test_scripts_can_be_parsed() -> None:
    node = shutil.which("node") or unavailable("needs Node")
    command = [node, "--experimental-vm-modules", "--no-warnings", "-e", PARSE, *map(str, scripts())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_vendored_files_are_those_that_their_list_names() -> None:
    listed = dict(re.findall(r"^\| `([^`]+)` \| `([0-9a-f]{64})` \|$", (VENDORED / "README.md").read_text(), re.M))
    files = {path.name: path.read_bytes() for path in VENDORED.iterdir() if path.name != "README.md"}
    assert {name: sha256(data).hexdigest() for name, data in files.items()} == listed
    assert sum(len(data) for name, data in files.items() if not name.endswith(".txt")) < VENDORED_BYTES_MAX


def test_no_page_has_a_script_or_a_style_of_its_own() -> None:
    """The content security policy would not let them run."""
    page = (STATIC / "index.html").read_text()
    assert re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", page) is None
