"""In every way in which a bookie's cookies can disagree, the start is refused with what differs."""

from collections.abc import Mapping, Sequence

import pytest

from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_errors import DirectoryMismatch
from magnetar.storage.bookie.cookie import Cookie
from magnetar.storage.bookie.cookie_rules import check_cookies

MINE = Cookie("b1:3181", ("/j",), ("/l1", "/l2"), "i1")
FOLDERS = ("/j", "/l1", "/l2")
ALL_MINE: dict[str, Cookie | None] = dict.fromkeys(FOLDERS, MINE)
NONE: dict[str, Cookie | None] = dict.fromkeys(FOLDERS)
EMPTY: dict[str, list[str]] = {folder: [] for folder in FOLDERS}
DATA = {"/j": ["1.journal"], "/l1": ["index"], "/l2": []}


def check(
    registered: Cookie | None,
    found: Mapping[str, Cookie | None],
    files: Mapping[str, Sequence[str]] = EMPTY,
    mine: Cookie = MINE,
    *,
    grow: bool = False,
) -> bool:
    return check_cookies(mine, registered, found, files, allow_storage_expansion=grow)


def test_a_new_bookie_gets_a_cookie_and_a_known_one_has_it() -> None:
    assert check(None, NONE)
    assert not check(MINE, ALL_MINE, DATA)


def test_a_first_start_that_broke_off_before_zookeeper_goes_on() -> None:
    assert check(None, ALL_MINE)
    assert check(None, {**NONE, "/j": MINE})


@pytest.mark.parametrize(
    ("registered", "found", "files", "reason"),
    [
        (None, ALL_MINE, DATA, "ZooKeeper has no cookie.*decommissioned"),
        (MINE, NONE, EMPTY, "its directories are empty: is a disk not mounted"),
        (MINE, {**ALL_MINE, "/l2": None}, DATA, "/l2 has no cookie.*is a disk not mounted"),
        (None, NONE, {**EMPTY, "/l1": ["current"]}, r"/l1 holds files \(current\) but no cookie"),
        (MINE, {**ALL_MINE, "/l1": None}, DATA, "/l1 holds files"),
        (MINE._replace(bookie_id="b2:3181"), ALL_MINE, DATA, "in ZooKeeper is of bookie b2:3181, this is b1:3181"),
        (MINE, {**ALL_MINE, "/j": MINE._replace(bookie_id="b2:3181")}, DATA, "cookie in /j is of bookie b2:3181"),
        (MINE._replace(instance_id="i2"), ALL_MINE, DATA, "in ZooKeeper is of cluster instance 'i2'"),
        (MINE, {**ALL_MINE, "/l1": MINE._replace(instance_id="")}, DATA, "cookie in /l1 is of cluster instance ''"),
        (MINE._replace(journal_directories=("/k",)), ALL_MINE, DATA, "says journalDirectories=/k, configured is /j"),
        (MINE._replace(ledger_directories=("/l1",)), ALL_MINE, DATA, "says ledgerDirectories=/l1,.*allowStorageExp"),
        (MINE._replace(ledger_directories=("/l2", "/l1")), ALL_MINE, DATA, "says ledgerDirectories=/l2,/l1"),
        (MINE._replace(ledger_directories=("/l1", "/l2", "/l3")), ALL_MINE, DATA, "configured is /l1,/l2$"),
    ],
)
def test_a_mismatch_is_refused_with_what_differs(
    registered: Cookie | None, found: dict[str, Cookie | None], files: dict[str, list[str]], reason: str
) -> None:
    with pytest.raises(DirectoryMismatch, match=reason):
        check(registered, found, files)


def test_ledger_directories_may_be_added_behind_the_known_ones_when_that_is_allowed() -> None:
    before = MINE._replace(ledger_directories=("/l1",))
    found = {"/j": before, "/l1": before, "/l2": None}
    assert check(before, found, DATA, grow=True)
    assert check(before, {**found, "/l1": MINE}, DATA, grow=True), "an expansion that broke off goes on"
    with pytest.raises(DirectoryMismatch, match="/l2 holds files"):
        check(before, found, {**DATA, "/l2": ["x"]}, grow=True)
    with pytest.raises(DirectoryMismatch, match="says ledgerDirectories=/l2"):
        check(MINE._replace(ledger_directories=("/l2",)), found, DATA, grow=True)
    with pytest.raises(DirectoryMismatch, match="/l1 has no cookie"):
        check(before, {**found, "/l1": None}, {**DATA, "/l1": []}, grow=True)


def test_folders_are_not_added_unless_the_configuration_says_so() -> None:
    config = BookieConfig(journal_directories=("/j",), ledger_directories=("/l",))
    assert (config.allow_storage_expansion, config.force_read_only_bookie) == (False, False)
