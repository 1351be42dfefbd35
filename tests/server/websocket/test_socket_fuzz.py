"""Whatever a peer sends over a socket harms nobody else: the server lives, another socket is served, and nothing is
logged as an error. Seeds are fixed; each is a history of its own."""

import asyncio
import contextlib
import json
import logging
import os
import random
import struct
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.websocket import client_frames
from tests.server.websocket.websocket_scene import TOPIC, Sockets, sockets

SEEDS = int(os.environ.get("MAGNETAR_FUZZ_SEEDS", "60"))

PATHS = (
    f"producer/{TOPIC}",
    f"producer/{TOPIC}?batchingEnabled=true&compressionType=ZLIB",
    f"consumer/{TOPIC}/s?subscriptionType=Shared&subscriptionInitialPosition=Earliest",
    f"consumer/{TOPIC}/s?subscriptionType=Shared&pullMode=true",
    f"reader/{TOPIC}?messageId=earliest",
)

Chance = random.Random


def frame(chance: Chance, opcode: int, body: bytes, *, final: bool = True) -> bytes:
    return client_frames.frame(opcode, body, final=final, mask=chance.randbytes(4))


def odd_value(chance: Chance) -> object:
    return chance.choice(
        [
            None,
            True,
            -1,
            2**63,
            10**40,
            1e308,
            "",
            "x" * chance.randrange(2_000),
            "\0",
            "é\U0001f600",
            [],
            {},
            [[[]]],
            {"a": {"b": []}},
            "CBQQADAA",
            "eA==",
            "2026-11-22T10:00:00Z",
            {str(number): "v" for number in range(chance.randrange(300))},
            [str(number) for number in range(chance.randrange(300))],
        ]
    )


MEMBERS = (
    "payload",
    "context",
    "properties",
    "key",
    "replicationClusters",
    "eventTime",
    "deliverAt",
    "deliverAfterMs",
    "encryptionParam",
    "compressionType",
    "uncompressedMessageSize",
    "type",
    "messageId",
    "permitMessages",
)
TYPES = ("permit", "unsubscribe", "negativeAcknowledge", "isEndOfTopic", "nope")


def odd_message(chance: Chance) -> bytes:
    members: dict[str, object] = {name: odd_value(chance) for name in chance.sample(MEMBERS, chance.randrange(6))}
    if chance.random() < 0.5:
        members["payload"] = b64encode(chance.randbytes(chance.randrange(300))).decode()
    if chance.random() < 0.3:
        members["type"] = chance.choice(TYPES)
    text = json.dumps(members).encode()
    if chance.random() < 0.1:
        text = text[: chance.randrange(len(text) + 1)]
    return text


def texts(chance: Chance) -> bytes:
    return b"".join(frame(chance, 1, odd_message(chance)) for _ in range(chance.randrange(1, 40)))


def broken_texts(chance: Chance) -> bytes:
    choices = (b"not json", b"{" * 5_000, b"[" * 100_000, b"\xff\xfe", b'"', b"9" * 5_000, b"{}" * 3, b"")
    return b"".join(frame(chance, 1, chance.choice(choices)) for _ in range(5))


def random_bytes(chance: Chance) -> bytes:
    return chance.randbytes(chance.randrange(1, 5_000))


def random_frames(chance: Chance) -> bytes:
    return b"".join(
        frame(chance, chance.randrange(16), chance.randbytes(chance.randrange(200)), final=chance.random() < 0.7)
        for _ in range(20)
    )


def fragments(chance: Chance) -> bytes:
    text = odd_message(chance) + b" " * 50
    cuts = sorted(chance.sample(range(len(text)), 5))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    made = [frame(chance, 1 if not at else 0, part, final=at == len(parts) - 1) for at, part in enumerate(parts)]
    made.insert(chance.randrange(len(made)), frame(chance, 9, b"ping"))
    return b"".join(made)


def claims_a_long_frame(chance: Chance) -> bytes:
    return b"\x81\xff" + struct.pack(">Q", chance.choice([2**63, 2**63 - 1, 2**40, 2**20 + 1])) + b"\0" * 100


def unmasked(chance: Chance) -> bytes:
    return b"\x81\x02{}"


def closes(chance: Chance) -> bytes:
    code = struct.pack(">H", chance.choice([1000, 1001, 999, 0, 5000, 1006]))
    return frame(chance, 8, chance.choice([b"", b"\0", code, code + b"\xff\xff", code + b"bye"]))


def tiny_text_floods(chance: Chance) -> bytes:
    return frame(chance, 1, b"") * chance.randrange(5_000) + frame(chance, 1, b"x", final=False) * chance.randrange(2)


def control_floods(chance: Chance) -> bytes:
    return b"".join(frame(chance, chance.choice([9, 10]), b"x" * chance.randrange(126)) for _ in range(300))


Attack = Callable[[Chance], bytes]
ATTACKS: tuple[Attack, ...] = (
    texts,
    texts,
    texts,
    broken_texts,
    random_bytes,
    random_frames,
    fragments,
    claims_a_long_frame,
    unmasked,
    closes,
    control_floods,
    tiny_text_floods,
)


def handshake(chance: Chance, path: str) -> bytes:
    lines = [f"GET /ws/v2/{path} HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    text = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return text[: chance.randrange(len(text))] if chance.random() < 0.1 else text


async def attack(scene: Sockets, seed: int) -> None:
    """One peer: a handshake, whole or not, then nonsense, then it leaves, politely or not."""
    chance = random.Random(seed)
    reader, writer = await scene.web.connect()
    with contextlib.suppress(ConnectionError):
        opening = handshake(chance, chance.choice(PATHS))
        writer.write(opening)
        if opening.endswith(b"\r\n\r\n") and chance.random() < 0.7:
            async with asyncio.timeout(20):
                await reader.read(100)
        for _ in range(chance.randrange(1, 4)):
            data = chance.choice(ATTACKS)(chance)
            writer.write(data[: chance.randrange(len(data) + 1)] if chance.random() < 0.2 else data)
            await asyncio.wait_for(writer.drain(), 20)
        if chance.random() < 0.5:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(100_000), 0.05)
    writer.transport.abort() if chance.random() < 0.5 else writer.close()


async def test_nonsense_harms_nobody_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with sockets(tmp_path) as scene, scene.open("producer/persistent/public/default/other") as other:
        for first in range(0, SEEDS, 10):
            await asyncio.gather(*(attack(scene, seed) for seed in range(first, min(first + 10, SEEDS))))
            assert (await other.ask({"payload": "eA==", "context": str(first)}))["result"] == "ok"
        status, _, _ = await scene.web.get("/admin/v2/brokers/health")
        assert status == 200
        stats = await scene.web.json("/admin/v2/persistent/public/default/other/stats")
        assert len(stats["publishers"]) == 1

        # Nothing of the attackers stays in the topic.
        for _ in range(100):
            stats = await scene.web.json(f"/admin/v2/{TOPIC}/stats")
            held = [
                *stats["publishers"],
                *(each for sub in stats["subscriptions"].values() for each in sub["consumers"]),
            ]
            if not held:
                break
        assert held == []
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
