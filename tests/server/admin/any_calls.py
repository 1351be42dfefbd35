"""Makes calls of a route at random: with names that exist and names that do not, bodies of all kinds, and queries."""

import random
import re

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


STREAM = "/live"
ONE_EVENT = "?events=1"
"""Streams of events do not end while a caller waits for their end, unless it asks for a number of events."""


def path_of(path: str, rng: random.Random) -> str:
    """Returns a path of a route. Half of its variable segments get names that exist."""

    def part(match: re.Match[str]) -> str:
        name = match[1]
        if name == "domain":
            return rng.choice(("persistent", "non-persistent"))
        return REAL[name] if name in REAL and rng.random() < 0.7 else rng.choice(PARTS)

    return re.sub(r"\{(\w+)\}", part, path) + (ONE_EVENT if path.endswith(STREAM) else rng.choice(QUERIES))
