"""A process that is out of descriptors, space or memory says so once a minute for each kind of trouble."""

import errno
import io
import logging
import os
from random import Random

import pytest

from magnetar.server.process.exhaustion_filter import EXHAUSTED, KINDS_MAX, ExhaustionFilter
from magnetar.storage.bookie.disks import DiskUsage
from magnetar.storage.ledger.ledger_errors import NotEnoughBookies
from magnetar.storage.ledger.placement_rules import choose_ensemble, replace_failed


class Log:
    """A logger whose handler has the filter, and a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._written = io.StringIO()
        handler = logging.StreamHandler(self._written)
        handler.addFilter(ExhaustionFilter(lambda: self.now_s))
        self.logger = logging.Logger("magnetar.x")
        self.logger.addHandler(handler)

    def lines(self) -> list[str]:
        return self._written.getvalue().splitlines()


def fault(code: int = errno.ENOSPC) -> OSError:
    return OSError(code, os.strerror(code))


@pytest.mark.parametrize("code", sorted(EXHAUSTED))
def test_a_thousand_topics_on_a_full_disk_make_one_line_a_minute(code: int) -> None:
    log = Log()
    for number in range(1000):
        log.logger.warning("topic %d: not stored: %s", number, fault(code))
    log.now_s = 60.0
    log.logger.warning("topic %d: not stored: %s", 7, fault(code))
    first, second = log.lines()
    assert first == f"topic 0: not stored: {fault(code)}"
    assert second == f"topic 7: not stored: {fault(code)} (and 999 lines like it before)"


def few_bookies() -> str:
    with pytest.raises(NotEnoughBookies) as caught:
        choose_ensemble(["b1"], 2, Random(1))
    return str(caught.value)


def none_to_replace() -> str:
    with pytest.raises(NotEnoughBookies) as caught:
        replace_failed(["b1"], {0: "b1"}, ["b1"], Random(1))
    return str(caught.value)


@pytest.mark.parametrize("reason", [DiskUsage(0, 0.97).sentence(), few_bookies(), none_to_replace()])
def test_a_bookie_that_refuses_writes_is_an_exhaustion_too(reason: str) -> None:
    log = Log()
    for number in range(1000):
        log.logger.warning("topic %d: storage does not take messages: %s", number, reason)
    assert log.lines() == [f"topic 0: storage does not take messages: {reason}"]


def test_each_kind_of_trouble_and_each_resource_is_told() -> None:
    log = Log()
    for _ in range(3):
        log.logger.warning("%s: not stored: %s", "a", fault())
        log.logger.warning("%s: not stored: %s", "a", fault(errno.EMFILE))
        log.logger.error("%s: not trimmed: %s", "a", fault())
    assert len(log.lines()) == 3


def test_an_exhaustion_that_only_the_exception_tells_is_kept_back_too() -> None:
    log = Log()
    for error in (fault(errno.EMFILE), fault(errno.EMFILE), MemoryError(), MemoryError()):
        log.logger.error("accepting failed", exc_info=error)
    assert log.lines().count("accepting failed") == 2


def test_other_warnings_and_calm_lines_are_never_kept_back() -> None:
    log = Log()
    for _ in range(5):
        log.logger.warning("bookie %s cannot be reached: %s", "b", fault(errno.ECONNREFUSED))
        log.logger.info("disk: %s", fault())
    assert len(log.lines()) == 10


def test_kinds_are_bounded() -> None:
    log = Log()
    for number in range(KINDS_MAX + 1):
        log.logger.warning(f"{number}: %s", fault())
    log.logger.warning("0: %s", fault())
    assert len(log.lines()) == KINDS_MAX + 2
