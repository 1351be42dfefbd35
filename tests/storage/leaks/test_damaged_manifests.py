"""A manifest that is not what a backup has written is refused with a sentence, before anything is restored by it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from magnetar.storage.leaks.backup_rules import BackupDamaged, BackupItem, Manifest, StoredEntries, digest
from pulsar_proto.records.ledger_record import ledger_path

LEDGER = BackupItem("", ledger_path(7), 0, 1, digest(b"x"), "no list has it", 7, StoredEntries(1, 13, digest(b"y")))
WHOLE = Manifest(1_000, "cluster", ("standalone",), (LEDGER, replace(LEDGER, path="/a/b", ledger_id=None)))


def changed(**members: Any) -> bytes:
    return json.dumps({**json.loads(WHOLE.serialize()), **members}).encode()


def changed_item(**members: Any) -> bytes:
    return changed(items=[{**json.loads(WHOLE.serialize())["items"][0], **members}])


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert Manifest.parse(WHOLE.serialize()) == WHOLE


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        changed(made_ms="now"),
        changed(instance_id=5),
        changed_item(path="/a//b", ledger_id=None),
        changed_item(path=7),
        changed_item(path="/ledgers/" + "1" * 5_000),
        changed_item(version="0"),
        changed_item(value_bytes=None),
        changed_item(sha256=5),
        changed_item(ledger_id="7"),
        changed_item(ledger_id=True, path=ledger_path(1)),
        changed_item(entries={"count": "1", "file_bytes": 13, "sha256": digest(b"y")}),
    ],
)
def test_a_damaged_manifest_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(BackupDamaged, match="the manifest is damaged: "):
        Manifest.parse(data)


def test_a_backup_does_not_give_the_entries_of_a_ledger_to_another_ledger() -> None:
    with pytest.raises(BackupDamaged, match="is not the record of ledger 8"):
        Manifest.parse(changed_item(ledger_id=8))
