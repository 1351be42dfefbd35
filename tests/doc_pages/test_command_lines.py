"""Every line of docs/ that calls `magnetar` is one that the program understands: command, options and values."""

from pathlib import Path

import pytest

from tests.doc_pages.command_faults import fault_of
from tests.doc_pages.command_lines import calls_of, lines_of, name_of, pages


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_command_line_of_a_page_is_understood(page: Path) -> None:
    faults = [
        f"{line}: {fault}"
        for line in lines_of(page)
        for words in calls_of(line)
        if (fault := fault_of(words)) is not None
    ]
    assert faults == []


def test_a_planted_mistake_is_found() -> None:
    assert fault_of(["standalone", "--data-dirr", "x"]) is not None
    assert fault_of(["nosuch"]) is not None
    assert fault_of(["admin", "topics", "nosuch"]) is not None
    assert fault_of(["admin", "topics", "list", "a/b", "--nosuch"]) is not None
    assert fault_of(["admin", "topics", "list", "a/b"]) is None


def test_the_programs_of_a_line_are_found() -> None:
    line = "pulsar-admin topics list a/b | jq . && magnetar read t > magnetar 2>&1; echo magnetar x"
    assert list(calls_of(line)) == [["admin", "topics", "list", "a/b"], ["read", "t"]]
    assert list(calls_of("A=b C= magnetar read $OPTIONS t &")) == [["read", "t"]]
