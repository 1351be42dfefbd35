"""The scenario of a broker with very many loaded topics whose page of /metrics is read: how long the page takes, how
large it is, and how long one callback holds the event loop meanwhile.

The time of a callback is CPU time, as the server's own watch of its loop measures it, so that other work on the machine
does not count. The watch leaves Python's garbage collections out, which are reported apart.
"""

import asyncio
import re
import shutil
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import aiohttp

from bench.process_stats import cpu_seconds, memory_mb
from bench.sizes import Figures, Sizes
from compat_tests.harness import CPU_LIMIT_VARIABLE, LOOP_HELD, Server
from compat_tests.products import Product

CONNECTIONS = 32
STALL_LIMIT_MS = 5
SCRAPES = 3
REFUSALS_MAX = 3
GZIP = zlib.MAX_WBITS + 16
SETTINGS = {"brokerDeleteInactiveTopicsEnabled": "false", "metricsServletTimeoutMs": "0"}
HELD = re.compile(rf"{LOOP_HELD} for (\d+) ms of CPU: (.*)")
FULL_COLLECTIONS = re.compile(rb'jvm_gc_collection_seconds_(count|sum)\{[^}]*gc="generation 2"\} (\S+)')
ADMIN = "/admin/v2/persistent/public/default"
TOPIC = "orders-{:06d}"
SUBSCRIPTION = f"{TOPIC}/subscription/billing"


def scrape(product: Product, sizes: Sizes) -> Figures:
    """Loads the topics, then makes a subscription of each, then reads the page SCRAPES times."""
    assert not product.is_peer, "this scenario has no peer"
    folder = Path(tempfile.mkdtemp(prefix="bench-scrape-"))
    server = Server(folder, product=product, settings=SETTINGS, environment={CPU_LIMIT_VARIABLE: str(STALL_LIMIT_MS)})
    try:
        server.start()
        topics = sizes.scraped_topics
        idle_mb = memory_mb(server.pid)
        asyncio.run(_put(server, TOPIC, range(topics)))
        loaded_mb = memory_mb(server.pid)
        print(f"  {loaded_mb:.0f} MB with {topics:,} loaded topics", file=sys.stderr, flush=True)
        asyncio.run(_put(server, SUBSCRIPTION, range(topics)))
        return {
            "loaded_topics_memory": loaded_mb,
            "loaded_topic_memory": (loaded_mb - idle_mb) * 1000 / topics,
            "scrape_topic_memory": (memory_mb(server.pid) - idle_mb) * 1000 / topics,
            **asyncio.run(_scrapes(server, topics)),
        }
    finally:
        server.kill()  # An orderly stop of so many topics takes long, and is not measured here.
        shutil.rmtree(folder, ignore_errors=True)


async def load_topics(server: Server, numbers: range) -> None:
    """Makes topics with a subscription each through REST, which also loads them. Raises ClientError."""
    await _put(server, TOPIC, numbers)
    await _put(server, SUBSCRIPTION, numbers)


async def _put(server: Server, path: str, numbers: range) -> None:
    """Makes a topic, or a subscription of one, for each number through REST. Raises ClientError."""
    began, waiting = time.monotonic(), iter(numbers)

    async def make(session: aiohttp.ClientSession) -> None:
        for number in waiting:
            async with session.put(f"{server.web_url}{ADMIN}/{path.format(number)}", raise_for_status=True):
                pass
            if number % 10_000 == 0:
                print(f"  {path.format(number)} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(make(session) for _ in range(CONNECTIONS)))


async def _scrapes(server: Server, topics: int) -> Figures:
    """Returns the figures of the slowest of SCRAPES pages and of the longest callback."""
    seconds, cpu = 0.0, 0.0
    pages = [await _page(server)]
    log_size = server.log_path.stat().st_size
    for _ in range(SCRAPES):
        began, cpu_before = time.monotonic(), cpu_seconds(server.pid)
        pages.append(await _page(server))
        seconds = max(seconds, time.monotonic() - began)
        cpu = max(cpu, cpu_seconds(server.pid) - cpu_before)
    stalls = HELD.findall(server.log_path.read_bytes()[log_size:].decode())
    for milliseconds, place in stalls:
        print(f"  {milliseconds} ms in {place}", file=sys.stderr, flush=True)
    count = pages[-1].collections - pages[0].collections
    spent_s = pages[-1].collection_seconds - pages[0].collection_seconds
    return {
        "scrape_seconds": seconds,
        "scrape_cpu": cpu,
        "scrape_topic_bytes": pages[-1].size / topics,
        "scrape_stall": max((float(milliseconds) for milliseconds, _ in stalls), default=0.0),
        "scrape_collection": spent_s / count * 1000 if count else 0.0,
    }


class _Page(NamedTuple):
    """What the bench keeps of a page."""

    size: int
    """The number of bytes of the compressed page."""
    collections: float
    collection_seconds: float
    """How many full garbage collections there have been before the page was made, and how long they took."""


async def _page(server: Server) -> _Page:
    """Reads the page. A server that is too busy to make it in time refuses it, and is asked again. Raises
    ClientError."""
    for _ in range(REFUSALS_MAX):
        try:
            return await _read(server)
        except aiohttp.ClientResponseError as error:
            print(f"  the page was refused: {error.status} {error.message}", file=sys.stderr, flush=True)
    return await _read(server)


async def _read(server: Server) -> _Page:
    """Reads the page part by part, because its text would take a gigabyte. Raises ClientError."""
    found: dict[bytes, bytes] = {}
    size, rest, unpacking = 0, b"", zlib.decompressobj(GZIP)
    async with (
        aiohttp.ClientSession(auto_decompress=False, read_bufsize=1 << 20) as session,
        session.get(f"{server.web_url}/metrics/", headers={"Accept-Encoding": "gzip"}, raise_for_status=True) as answer,
    ):
        async for data in answer.content.iter_any():
            size += len(data)
            text = rest + unpacking.decompress(data)
            found.update(FULL_COLLECTIONS.findall(text))
            rest = text[text.rfind(b"\n") + 1 :]
    return _Page(size, float(found[b"count"]), float(found[b"sum"]))
