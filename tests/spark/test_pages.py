"""What a page of docs/ may hold, and that a page which cannot be followed is refused."""

from pathlib import Path

import pytest

from tests.spark.pages import BadPage, Block, Reader, blocks_of, check_prints, commands_of, server_settings

PAGE = """\
Words.

```sh
magnetar standalone --data-dir ./data --set brokerDeduplicationEnabled=true &
```

`sum.py`:

```python
print("one   two", 3)
```

It is run so:

```sh
env/bin/python sum.py   # a comment
```

which prints:

```text
one two …
```
"""


def follow(page: str) -> None:
    Reader({"pulsar://127.0.0.1:6650": "pulsar://there"}).follow(blocks_of(page))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_commands_and_what_they_print(folder: Path) -> None:
    blocks = blocks_of(PAGE)
    assert [(block.kind, block.file, block.prints) for block in blocks] == [
        ("sh", "", ""),
        ("python", "sum.py", ""),
        ("sh", "", "one two …\n"),
    ]
    assert server_settings(blocks) == {"brokerDeduplicationEnabled": "true"}
    follow(PAGE)


@pytest.mark.process
@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        (PAGE.replace("one two …", "one three"), "does not print 'one three'"),
        (PAGE.replace("env/bin/python sum.py", "echo one two x"), "nothing on the page runs sum.py"),
        (PAGE.replace("env/bin/python sum.py", "frobnicate sum.py"), "does not know how to run: frobnicate"),
        (PAGE.replace("env/bin/python sum.py", "ls nowhere"), "exit code 2: ls nowhere"),
        (PAGE.replace('print("one', 'raise ValueError("one'), "line 15: "),
        (PAGE.replace("```python", "```java"), "kind 'java' is not run"),
        (PAGE.replace("which prints:", "Something else."), "a text block stands straight after"),
        (PAGE + "```sh\nls\n", "line 24: the block has no end"),
        (PAGE.replace("python sum.py", "magnetar spark nothing"), "exit code 2: magnetar spark nothing"),
    ],
)
def test_a_page_that_cannot_be_followed_fails(folder: Path, page: str, complaint: str) -> None:
    with pytest.raises(BadPage) as failed:
        follow(page)
    assert complaint in str(failed.value)


def test_commands_go_on_over_lines_and_quotations() -> None:
    script = "# nothing\nfirst --a b \\\n    --c d\n\nsecond 'of two\nlines'  # said\nthird\n"
    commands = [" ".join(command.split()) for command in commands_of(script)]
    assert commands == ["first --a b --c d", "second 'of two lines' # said", "third"]


def test_documented_urls_become_the_servers_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    follow("```python\nprint('pulsar://127.0.0.1:6650')\n```\n```text\npulsar://there\n```\n")


def test_what_is_promised_has_to_come_in_its_order() -> None:
    block = Block("sh", "", 1, prints="a\n\nb … d\n")
    check_prints(block, "x a\nb c  d\n")
    with pytest.raises(BadPage):
        check_prints(block, "b c d\na\n")
