"""What changed while the connection to the metadata store was lost is read again, by everybody who keeps a picture of
records."""

import ast
import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.house.tree import parsed
from tests.server.reconnects.views import VIEWS, View
from tests.sim.sim_sessions import Servers, SimStore
from tests.sim.virtual_loop import run

ROOT = Path(__file__).resolve().parents[3]
SECONDS_MAX = 120
"""In virtual time."""


@pytest.mark.parametrize("loses_session", [False, True])
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_a_change_that_nobody_heard_of_is_read_after_the_reconnect(view: type[View], loses_session: bool) -> None:
    for seed in range(5):
        run(rng := Random(seed), _lose_and_find(view(), rng, loses_session))


async def _lose_and_find(view: View, rng: Random, loses_session: bool) -> None:
    servers = Servers(rng)
    direct, store = servers.records, SimStore(servers)
    await view.prepare(direct)
    await view.start(store)
    while not store.is_quiet:
        await store.exists("/")
    store.cut()
    await view.change(direct)
    if loses_session:
        await store.end_session()
    store.reconnect()
    async with asyncio.timeout(SECONDS_MAX):
        while not await view.sees():
            await store.exists("/")  # lets virtual time pass
    await view.close()
    store.die()


def test_every_recursive_watch_of_the_product_has_its_view() -> None:
    """Whoever watches recursively must treat CHANGED of its own path as "anything may have changed"."""
    found = {
        str(path.relative_to(ROOT))
        for room in ("metadata", "storage", "server")
        for path in (ROOT / room).rglob("*.py")
        if not path.is_relative_to(ROOT / "metadata" / "zookeeper") and _watches_recursively(parsed(path))
    }
    assert found - {view.module for view in VIEWS} == set(), "add a View that shows what it does after a reconnect"


def _watches_recursively(module: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "watch"
        and any(
            keyword.arg == "recursive" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            for keyword in node.keywords
        )
        for node in ast.walk(module)
    )


def test_a_planted_recursive_watch_is_found() -> None:
    assert _watches_recursively(ast.parse("self._store.watch(ROOT, heard, recursive=True)"))
    assert not _watches_recursively(ast.parse("self._store.watch(ROOT, heard)"))
