"""Makes the calls that were captured at Apache Pulsar's REST port at another server, in their order, and compares the
answers. What cannot be equal is left out of the comparison: ledger ids (which are translated in the calls), times,
rates, addresses, the order of sets."""

import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

VOLATILE = re.compile(
    r".*(Timestamp|TimeStamp|Time|Rate|Age|Seconds)$|msgRate.*|msgThroughput.*|.*Since$|address|clientVersion|"
    r"producerName|producerId|ownerBroker|lastLedger.*|timestamp|creationDate|modificationDate|version|whyIdle|"
    r"ledgerId|lastConfirmedEntry|averageMsgSize|waitingCursorsCount|cursorLedger.*|lastConsumed.*|firstMessages.*|firstConsumed.*"
)
THEIR_LEDGER = 6
"""The ledger of the topic t1 in the captures."""
THEIR_TIMES = re.compile(r"\b1795224\d{6}\b")


@dataclass(frozen=True, slots=True)
class Mismatch:
    number: int
    call: str
    wanted: str
    got: str
    got_status: int

    def __str__(self) -> str:
        return f"{self.number} {self.call}\n    wanted {self.wanted}\n    got    {self.got}"


@dataclass(slots=True)
class Replay:
    session: aiohttp.ClientSession
    web_url: str
    broker_url: str
    their_broker_url: str = "pulsar://127.0.0.1:6775"
    their_web_url: str = "http://127.0.0.1:8197"
    ledger: int = THEIR_LEDGER
    """The ledger of the topic t1 in this server."""
    mismatches: list[Mismatch] = field(default_factory=list)
    calls: int = 0

    def here(self, text: str) -> str:
        """Returns a path or body of the captures with this server's addresses and ids in it."""
        text = text.replace(self.their_broker_url, self.broker_url).replace(self.their_web_url, self.web_url)
        text = text.replace(self.their_web_url.removeprefix("http://"), self.web_url.removeprefix("http://"))
        text = text.replace(f'"ledgerId":{THEIR_LEDGER},', f'"ledgerId":{self.ledger},')
        text = text.replace(f"/ledger/{THEIR_LEDGER}/", f"/ledger/{self.ledger}/")
        text = re.sub(rf'"{THEIR_LEDGER}:(\d+)"', rf'"{self.ledger}:\1"', text)
        return THEIR_TIMES.sub(str(int(time.time() * 1000) + 100_000), text)

    async def call(self, number: int, exchange: dict[str, Any]) -> None:
        body = exchange.get("qb")
        self.calls += 1
        headers = {"Content-Type": exchange.get("qt") or "application/json"}
        async with self.session.request(
            exchange["m"],
            self.web_url + self.here(exchange["p"]),
            data=None if body is None else self.here(body).encode(),
            headers=headers,
            allow_redirects=False,
        ) as response:
            content = await response.read()
            got = content.decode("utf-8", "replace")
            fault = self._fault(exchange, response.status, got)
            status = response.status
        if fault is not None:
            said = f"{exchange['m']} {exchange['p']} {(body or '')[:120]}"
            self.mismatches.append(Mismatch(number, said, *fault, status))

    def _fault(self, exchange: dict[str, Any], status: int, got: str) -> tuple[str, str] | None:
        wanted = self.here(exchange.get("rb", ""))
        if status != exchange["s"]:
            return f"{exchange['s']} {wanted[:300]}", f"{status} {got[:300]}"
        if "len" in exchange or exchange.get("rt", "") != "application/json" or (status >= 400 and not wanted):
            return None
        ours, theirs = comparable(got), comparable(wanted)
        if isinstance(theirs, str) and isinstance(ours, dict) and "reason" in ours:
            ours = ours["reason"]
        return None if covers(ours, theirs) else (json.dumps(theirs)[:3000], json.dumps(ours)[:3000])


def comparable(text: str) -> Any:
    """Returns parsed JSON without what differs from run to run, and any other text as it is."""
    try:
        return _plain(json.loads(text))
    except ValueError:
        return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if not VOLATILE.fullmatch(key)}
    if isinstance(value, list):
        plain = [_plain(each) for each in value]
        return sorted(plain) if all(isinstance(each, str) for each in plain) else plain
    return value


def covers(ours: Any, theirs: Any) -> bool:
    """Returns whether our answer has everything that theirs has; ours may have more."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return all(key in ours and covers(ours[key], value) for key, value in theirs.items())
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(ours) == len(theirs) and all(covers(*pair) for pair in zip(ours, theirs, strict=True))
    return bool(ours == theirs)


def report(mismatches: Iterable[Mismatch]) -> str:
    return "\n".join(map(str, mismatches))
