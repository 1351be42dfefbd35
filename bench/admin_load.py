"""Calls of the web port without a pause: each of many connections sends its next request as soon as the last one is
answered.

This runs as a process of its own (`python -m bench.admin_load`) until its stdin is closed. Then it prints one JSON
object that says how many calls were answered with which status, and how many connections were lost. It prints "all in
flight" when every connection has been answered once.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from itertools import cycle

from bench.http_answers import AnswerScanner, HttpError

CALLS = ("{topic}/stats", "{topic}/internalStats", "namespaces/public/default/topics", "persistent/public/default")
SCRAPE_EVERY = 50
"""Every connection whose number is a multiple of this scrapes /metrics; the others take turns with CALLS."""


class Caller(asyncio.Protocol):
    """One connection, which sends the requests `asked` in turn."""

    def __init__(self, asked: list[bytes], statuses: Counter[str], first: asyncio.Future[None]) -> None:
        """Counts the answers in `statuses`. `first` is done after the first answer, or fails when none comes."""
        self._asked = cycle(asked)
        self._statuses = statuses
        self._first = first
        self._answers = AnswerScanner()
        self._error: HttpError | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.write(next(self._asked))

    def data_received(self, data: bytes) -> None:
        try:
            statuses = self._answers.feed(data)
        except HttpError as error:
            self._error = error
            self._transport.abort()
            return
        for status in statuses:
            self._statuses[str(status)] += 1
            if not self._first.done():
                self._first.set_result(None)
            self._transport.write(next(self._asked))

    def connection_lost(self, exc: Exception | None) -> None:
        """Has `load` fail, or counts the loss if calls were answered on this connection before."""
        error = self._error or exc or ConnectionError("the server closed a connection")
        if self._first.done():
            self._statuses[str(error)] += 1
        else:
            self._first.set_exception(error)


def request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


def requests(number: int, topics: int) -> list[bytes]:
    """Returns the requests of the connection with this number."""
    if number % SCRAPE_EVERY == 0:
        return [request("/metrics/")]
    paths = (call.format(topic=f"persistent/public/default/many-{number % topics}") for call in CALLS)
    asked = [request(f"/admin/v2/{path}") for path in paths]
    return asked[number % len(asked) :] + asked[: number % len(asked)]


async def load(port: int, connections: int, topics: int) -> Counter[str]:
    loop = asyncio.get_running_loop()
    statuses: Counter[str] = Counter()
    answered: list[asyncio.Future[None]] = []
    for number in range(connections):
        first: asyncio.Future[None] = loop.create_future()
        answered.append(first)
        caller = Caller(requests(number, topics), statuses, first)
        await loop.create_connection(lambda: caller, "127.0.0.1", port)  # noqa: B023
    await asyncio.gather(*answered)
    print("all in flight", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    return statuses


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.admin_load", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="the web port on 127.0.0.1")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--topics", type=int, required=True, help="there are many-0, many-1, …")
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(load(arguments.port, arguments.connections, arguments.topics))))


if __name__ == "__main__":
    main()
