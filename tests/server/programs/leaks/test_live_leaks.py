"""`magnetar leaks --admin-url` and the calls that it makes: leaks of a standalone server that runs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from magnetar.metadata.store import MetadataStore
from magnetar.server.programs.standalone import Standalone
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.ledger_labels import ledger_labels
from pulsar_proto.records.ledger_record import ledger_path
from tests.server.programs.leaks.leaks_command import Done, call
from tests.server.web.web_scene import Web, running

GONE = "public/default/persistent/gone"
LEAKS = "/admin/v2/brokers/leaks"
NO_GRACE = ("--grace-hours", "0")


async def leaks(web: Web, *words: str) -> Done:
    """Runs the command beside the server."""
    return await asyncio.to_thread(call, *words, "--admin-url", web.server.web_url)


async def found(web: Web) -> Any:
    return (await leaks(web, "find", *NO_GRACE, "-o", "json")).row


async def write(server: Standalone, labels: dict[str, bytes], *, closed: bool = True) -> int:
    """Writes a ledger that no record names, and returns its id."""
    handle = await server.bookkeeper.create_ledger(custom_metadata=labels)
    await handle.add(b"message")
    if closed:
        await handle.close()
    return handle.ledger_id


def store_of(web: Web) -> MetadataStore:
    return web.server.service.metadata


async def make_topic(web: Web, name: str, messages: int = 3) -> None:
    client = await web.publish(messages, f"persistent://public/default/{name}")
    client.writer.close()


async def test_each_kind_of_leak_is_found_beside_what_is_in_use(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await make_topic(web, "kept")
        await make_topic(web, "damaged")
        assert (await leaks(web, "find", *NO_GRACE)).code == 0
        labels = ledger_labels(GONE)
        schema = {"application": b"pulsar", "component": b"schema", "pulsar/schemaId": b"public/default/gone"}
        orphans = {
            await write(web.server, labels),
            await write(web.server, {**labels, "pulsar/cursor": b"billing"}),
            await write(web.server, schema),
            await write(web.server, ledger_labels("public/default/persistent/kept")),
        }
        foreign = await write(web.server, {})
        open_one = await write(web.server, ledger_labels("public/default/persistent/kept"), closed=False)
        await store_of(web).create(ledger_path(987_654), b"nonsense", make_parents=True)
        await store_of(web).create("/managed-ledgers/public/former/persistent/t", b"", make_parents=True)
        topic = web.server.service.topics["persistent://public/default/damaged"]
        (lost,) = (info.ledger_id for info in topic.ledger._ledgers.infos)
        await store_of(web).delete(ledger_path(lost))

        row = await found(web)
        assert [each["ledgerId"] for each in row["dangling"]] == [lost]
        assert [each["ledgerId"] for each in row["damaged"]] == [987_654]
        assert foreign in [each["ledgerId"] for each in row["unknown"]]
        assert [each["ledgerId"] for each in row["kept"]] == [open_one]
        assert "/managed-ledgers/public/former" in json.dumps(row["leftovers"])
        assert {each["ledgerId"] for each in row["orphans"]} == orphans
        text = await leaks(web, "find", *NO_GRACE)
        assert text.code == 1
        assert text.out.startswith("DATA ARE LOST: 1 reference to ledgers that are gone")


async def test_a_leak_is_explained_backed_up_removed_and_restored_while_the_server_runs(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await make_topic(web, "kept")
        orphan = await write(web.server, ledger_labels(GONE))
        assert (await found(web))["orphans"][0]["ledgerId"] == orphan
        assert (await leaks(web, "find")).code == 0, "it is younger than a day"
        explained = await leaks(web, "explain", str(orphan), *NO_GRACE)
        assert (explained.code, "there is no topic persistent://public/default/gone" in explained.out) == (1, True)

        made = await leaks(web, "backup", "monday", "--entries", *NO_GRACE, "-o", "json")
        assert (made.row["ledgers"], made.row["entries"]) == (1, 1)
        again = await leaks(web, "backup", "monday", *NO_GRACE)
        assert (again.code, "has a backup already" in again.err) == (3, True)
        early = await leaks(web, "remove", "monday", "-f", *NO_GRACE)
        assert (early.code, "second look is due in 60 minutes" in early.err) == (3, True)
        remove = ("remove", "monday", "--second-look-hours", "0", *NO_GRACE)
        assert "-f" in (await leaks(web, *remove)).err, "nobody is there to be asked"
        removed = await leaks(web, *remove, "-f")
        assert (removed.code, removed.out) == (0, f"ledger {orphan}: removed\n")
        assert await store_of(web).exists(ledger_path(orphan)) is None
        assert (await leaks(web, "find", *NO_GRACE)).code == 0

        restored = await leaks(web, "restore", "monday", "-f", "-o", "json")
        assert (restored.code, restored.row["done"]) == (0, True), restored
        handle = await web.server.bookkeeper.open_ledger(orphan)
        assert (await handle.read(0, 0))[0].endswith(b"message")
        assert "removed" in (tmp_path / "leaks" / "monday" / "log").read_text()


async def test_nothing_of_a_busy_server_is_called_a_leak(tmp_path: Path) -> None:
    """Topics are made, rolled over, trimmed, compacted and deleted all the time, and no ledger is too young."""
    settings = {"managedLedgerMaxEntriesPerLedger": "5", "managedLedgerMinLedgerRolloverTimeMinutes": "0"}
    ended = asyncio.Event()
    deleted = 0

    async def use(web: Web, worker: int) -> None:
        nonlocal deleted
        number = 0
        while not ended.is_set():
            number += 1
            path = f"/admin/v2/persistent/public/default/t-{worker}-{number}"
            await make_topic(web, f"t-{worker}-{number}", 23)
            for method, tail in (
                ("PUT", "/subscription/s"),
                ("PUT", "/compaction"),
                ("POST", "/subscription/s/skip_all"),
                ("DELETE", "/truncate"),
                ("DELETE", "?force=true"),
            ):
                status, text = await web.call(method, path + tail)
                assert status < 300 or "compaction" in text.lower(), (tail, status, text)
            deleted += 1

    async with running(tmp_path, **settings) as web:
        busy = [asyncio.create_task(use(web, worker)) for worker in range(3)]
        looks = 0
        while looks < 5 or deleted < 3:
            row = await found(web)
            assert (row["orphans"], row["dangling"], row["damaged"]) == ([], [], [])
            looks += 1
        ended.set()
        await asyncio.gather(*busy)
        assert (await found(web))["orphans"] == []


async def test_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        for name in ("...", ".hidden", "a%2Fb", "x" * 65, "a%20b"):
            for tail in ("", "/removal", "/restoration"):
                status, text = await web.call("POST", f"{LEAKS}/backups/{name}{tail}")
                assert status in (404, 412), (name, text)
        assert not (tmp_path / "leaks").exists()
        for query in ("graceHours=-1", "graceHours=x", "graceHours=9999999999", "graceHours=²"):
            assert (await web.call("GET", f"{LEAKS}?{query}"))[0] == 400
        assert (await web.call("GET", f"{LEAKS}/explanation"))[0] == 400
        for subject in (
            "9" * 5_000,
            "9" * 19,
            "/",
            "//",
            "/a//b",
            "/..",
            "/a/",
            "%2F%00",
            "%2F%0A",
            "%2F%F0%9F%98%80",
            "-1",
        ):
            status, text = await web.call("GET", f"{LEAKS}/explanation?subject={subject}")
            assert (status, "end" in json.loads(text.splitlines()[-1])) == (200, True), subject
        missing = await leaks(web, "restore", "tuesday", "-f")
        assert (missing.code, "it is no backup" in missing.err) == (3, True)
        wrong = await leaks(web, "explain", "nonsense")
        assert (wrong.code, "neither a ledger's id nor the path" in wrong.err) == (3, True)


async def test_one_look_is_taken_at_a_time(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        assert web.server.service is not None
        answers = await asyncio.gather(*(web.call("GET", LEAKS) for _ in range(4)))
        ends = [json.loads(text.splitlines()[-1])["end"] for _, text in answers]
        assert {"found": False} in ends
        assert all(end == {"found": False} or "another look" in end["error"] for end in ends)
        assert (await leaks(web, "find")).code == 0


async def test_a_server_that_is_away_is_named(tmp_path: Path) -> None:
    nobody = await asyncio.to_thread(call, "find", "--admin-url", "http://127.0.0.1:1")
    assert (nobody.code, "127.0.0.1:1" in nobody.err) == (3, True)
    both = await asyncio.to_thread(call, "find", "--admin-url", "http://127.0.0.1:1", "--data-dir", "x")
    assert (both.code, "give one of" in both.err) == (2, True)


@pytest.mark.parametrize("fault", [LedgerError("no answer"), OSError(28, "No space left on device")])
async def test_a_failure_in_the_middle_is_the_end_of_the_answer(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr("magnetar.server.leaks.live_leaks.find", fails)
    async with running(tmp_path) as web:
        told = await leaks(web, "find")
        assert (told.code, str(fault) in told.err) == (3, True)
        assert (await leaks(web, "find")).err == told.err, "the next look is not refused as a second one"
