"""A real server whose journal was damaged after a SIGKILL gives clients everything that is outside of the damage."""

from pathlib import Path

import pulsar
import pytest

from compat_tests.harness import Server, ServerFailedError
from magnetar.storage.bookie.file_inspection import SeenBatch, read_journals
from tests.server.official_client import client_of
from tests.storage.bookie.helpers import flip_byte

pytestmark = pytest.mark.process

COUNT = 1600
PART = 200
"""How many messages are sent at once. Each part is at least one batch in the journal."""
TOPIC = "persistent://public/default/damaged"
READ_TIMEOUT_MS = 30_000

Receipts = dict[int, pulsar.MessageId]


def payload(number: int) -> bytes:
    return b"message %d " % number


def publish(client: pulsar.Client, numbers: range) -> Receipts:
    producer = client.create_producer(TOPIC, batching_enabled=False, max_pending_messages=0)
    receipts: Receipts = {}

    def received(number: int, result: pulsar.Result, message_id: pulsar.MessageId) -> None:
        assert result == pulsar.Result.Ok, result
        receipts[number] = message_id

    for number in numbers:
        producer.send_async(payload(number), lambda result, id, number=number: received(number, result, id))
    producer.flush()
    producer.close()
    assert len(receipts) == len(numbers)
    return receipts


def read_all(client: pulsar.Client, receipts: Receipts, damaged: set[int]) -> list[int]:
    """Returns the numbers that readers get. A reader starts at the first message and behind each run of damaged
    ones."""
    found: list[int] = []
    starts = [n for n in receipts if n not in damaged and (n - 1 in damaged or n == 0)]
    for start in starts:
        end = min([n for n in damaged if n > start], default=len(receipts))
        reader = client.create_reader(TOPIC, receipts[start], start_message_id_inclusive=True)
        found += [int(reader.read_next(READ_TIMEOUT_MS).data().split()[1]) for _ in range(start, end)]
        reader.close()
    return found


@pytest.mark.parametrize("victim", ["the batch with the ledger's key", "a batch in the middle"])
def test_all_messages_outside_of_the_damaged_batch_come_back(tmp_path: Path, victim: str) -> None:
    data = tmp_path / "data"
    first = Server(tmp_path / "first", data_dir=data, settings={"flushInterval": "600000"})
    with first, client_of(first) as client:
        client.subscribe(TOPIC, "keeps the messages").close()
        receipts: Receipts = {}
        for start in range(0, COUNT, PART):
            receipts |= publish(client, range(start, start + PART))
        first.kill()
    batch, damaged = damage(sorted((data / "journal").glob("*.journal")), victim)

    plain = Server(tmp_path / "plain", data_dir=data)
    with pytest.raises(ServerFailedError, match=f"offset {batch.offset}.*skipDamagedJournal=true"):
        plain.start()
    skipping = Server(tmp_path / "skipping", data_dir=data, settings={"skipDamagedJournal": "true"})
    with skipping, client_of(skipping) as client:
        assert read_all(client, receipts, damaged) == [n for n in range(COUNT) if n not in damaged]
        receipts |= publish(client, range(COUNT, COUNT + 10))
        skipping.kill()
    with plain, client_of(plain) as client:
        assert read_all(client, receipts, damaged) == [n for n in range(COUNT + 10) if n not in damaged]


def damage(journals: list[Path], victim: str) -> tuple[SeenBatch, set[int]]:
    """Flips a bit in the body of one batch. Returns the batch and the numbers of its messages."""
    seen = [found for found in read_journals(list(map(str, journals))) if isinstance(found, SeenBatch)]
    ours = [batch for batch in seen if any(b"message " in entry for entry in batch.entries)]
    batch = ours[0 if victim == "the batch with the ledger's key" else len(ours) // 2]
    damaged = {n for n in range(COUNT) if any(entry.endswith(payload(n)) for entry in batch.entries)}
    assert 0 < len(damaged) < COUNT
    flip_byte(Path(batch.file), batch.offset + 60)
    return batch, damaged
