"""Whatever is called with whatever: every answer is one, and none says that the server failed."""

import logging
import random
import re
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from server.admin.routes import ROUTES
from server.app import Standalone, StandaloneOptions

CALLS_PER_ROUTE = 12
SEED = 20261121

PARTS = (
    "public",
    "default",
    "t",
    "p",
    "s",
    "nope",
    "a%2Fb",
    "%00",
    "..",
    ".",
    "%2E%2E",
    "x" * 300,
    "-1",
    "0",
    "99999999999999999999",
    "0x00000000_0x40000000",
    "0x0_0x1",
    "LARGEST",
    "%C3%BC%F0%9F%90%98",
    "%FF",
    "a%0Ab",
    "standalone",
    "t-partition-0",
    "p-partition-1",
    "p-partition-7",
    "__change_events",
)
BODIES = (
    None,
    "",
    "null",
    "{}",
    "[]",
    '"x"',
    "-1",
    "7",
    "1e400",
    "true",
    "{bad",
    "[null]",
    '[["x"]]',
    '{"ledgerId":"x","entryId":null}',
    '{"ledgerId":-1,"entryId":-1}',
    '{"ledgerId":99999999999999999999,"entryId":0}',
    '{"ledgerId":3,"entryId":99,"properties":[]}',
    '{"partitions":{"a":1},"properties":7}',
    '{"a":null}',
    '{"\\u0000":"\\ud800"}',
    '{"policy":"producer_exception","limitSize":"x"}',
    '{"type":"AVRO","schema":"{","properties":{}}',
    "[" * 5_000,
)
QUERIES = (
    "",
    "?force=true",
    "?isGlobal=x&applied=true",
    "?messageTTL=-1",
    "?messagePosition=x&initialPosition=%00",
    "?key=%00",
    "?backlogQuotaType=%F0",
    "?bundle=..&mode=x",
    "?splitAlgorithmName=x&unload=true",
    "?perPartition=true&checkAllowAutoCreation=true",
)
REAL = {"tenant": "public", "namespace": "default", "domain": "persistent", "topic": "t", "cluster": "standalone"}


def path_of(path: str, rng: random.Random) -> str:
    """Half of the variable parts lead somewhere."""

    def part(match: re.Match[str]) -> str:
        name = match[1]
        if name == "domain":
            return rng.choice(("persistent", "non-persistent"))
        return REAL[name] if name in REAL and rng.random() < 0.7 else rng.choice(PARTS)

    return re.sub(r"\{(\w+)\}", part, path) + rng.choice(QUERIES)


async def test_no_call_makes_the_server_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(SEED)
    server = Standalone(StandaloneOptions(data_dir=tmp_path, broker_port=0, web_port=0))
    await server.start()
    failures = []
    try:
        async with aiohttp.ClientSession() as session:
            for topic in ("t", "p/partitions"):
                url = f"{server.web_url}/admin/v2/persistent/public/default/{topic}"
                async with session.put(url, json=2 if "/" in topic else None) as answer:
                    assert answer.status == 204
            for route in ROUTES:
                for _ in range(CALLS_PER_ROUTE):
                    path, body = path_of(route.path, rng), rng.choice(BODIES)
                    called = URL(server.web_url + path, encoded=True)
                    async with session.request(route.method, called, data=body, allow_redirects=False) as answer:
                        text = await answer.text(errors="replace")
                        if answer.status >= 500 and "listener" not in text:
                            failures.append(f"{route.method} {path} {body}: {answer.status} {text}")
                        elif answer.status >= 400 and "reason" not in text:
                            failures.append(f"{route.method} {path} {body}: {answer.status} without a reason: {text}")
            async with session.get(f"{server.web_url}/admin/v2/brokers/health") as answer:
                assert (answer.status, await answer.text()) == (200, "ok")
    finally:
        await server.stop()
    assert not failures, "\n" + "\n".join(each[:400] for each in failures)
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
