"""Caches of records keep their claims on random histories, and the histories find planted bugs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

from magnetar.metadata.coordination.cache_rules import CopyTable, Reading
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.store import RecordEvent
from tests.rounds import rounds
from tests.sim.cache_history import tell_of_caches

SEEDS = rounds(100)
SEEDS_OF_A_MUTATION = 300

_heard = CopyTable.heard


def _a_reconnect_is_ignored() -> AbstractContextManager[Any]:
    def heard(self: CopyTable[Any], event: RecordEvent) -> list[str]:
        return [] if event.path == self._root else _heard(self, event)

    return patch.object(CopyTable, "heard", heard)


def _an_overtaken_answer_is_trusted() -> AbstractContextManager[Any]:
    end = CopyTable.begin

    def begin(self: CopyTable[Any], path: str) -> Reading:
        reading = end(self, path)
        self._readings.pop(path)
        return reading

    return patch.object(CopyTable, "begin", begin)


def _followed_copies_wait_until_somebody_asks() -> AbstractContextManager[Any]:
    return patch.object(RecordCache, "_read_soon", lambda self, paths: None)


MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    mutation.__name__.removeprefix("_"): mutation
    for mutation in (
        _a_reconnect_is_ignored,
        _an_overtaken_answer_is_trusted,
        _followed_copies_wait_until_somebody_asks,
    )
}


def test_no_history_of_caches_breaks_a_claim() -> None:
    for seed in range(SEEDS):
        try:
            tell_of_caches(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_bug_of_caches_breaks_a_claim(name: str) -> None:
    broken = None
    with MUTATIONS[name]():
        for seed in range(SEEDS_OF_A_MUTATION):
            try:
                tell_of_caches(seed)
            except Exception:
                broken = seed
                break
    assert broken is not None, f"{name}: none of {SEEDS_OF_A_MUTATION} histories noticed"
    tell_of_caches(broken)  # the same history breaks no claim without the bug
