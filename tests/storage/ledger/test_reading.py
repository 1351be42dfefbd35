"""Stories of readers: damaged copies, ledgers that are still being written, and passwords."""

import pytest

from magnetar.storage.ledger.ledger_errors import DigestMismatch, UnauthorizedAccess
from pulsar_proto.records.entry_digest import DigestType, entry_lac
from pulsar_proto.records.ledger_record import LedgerState
from tests.storage.ledger.fake_bookie import LinkState
from tests.storage.ledger.scene import Scene, answered, check_closed, members, new_ledger
from tests.storage.ledger.virtual_loop import run


def test_what_was_added_is_read_back_and_the_ledger_closes_at_its_last_entry() -> None:
    async def story() -> None:
        scene = Scene(1)
        client = scene.client("w")
        handle, writer = await new_ledger(client, (1, 1, 1))
        writer.append(b"one", b"two", b"three")
        assert await handle.add(b"four") == 3
        assert (handle.last_add_confirmed, handle.length) == (3, 15)
        entries = await handle.read(0, 3)
        assert [entry[handle.payload_offset :] for entry in entries] == [b"one", b"two", b"three", b"four"]
        assert [entry_lac(entry) for entry in entries] == [-1, -1, -1, -1]
        await handle.close()
        await handle.close()
        await check_closed(scene, handle.ledger_id, [writer])
        reading = await client.open_ledger(handle.ledger_id)
        assert (reading.last_add_confirmed, reading.length, reading.is_closed) == (3, 15, True)
        assert await reading.read(1, 3) == entries[1:]

    run(story())


def test_striped_entries_are_written_and_read_over_all_bookies() -> None:
    async def story() -> None:
        scene = Scene(6, delay_max=0.01, answers_in_parts=True)
        client = scene.client("w")
        handle, writer = await new_ledger(client, (5, 3, 2))
        for i in range(6):
            writer.append(*(b"entry %d of %d" % (j, i) for j in range(7)))
        await answered(writer)
        scene.cluster.bookies[members(handle)[3]].network = LinkState.RESET
        for i in range(6, 9):
            writer.append(*(b"entry %d of %d" % (j, i) for j in range(7)))
        await answered(writer)
        assert len(writer.acked) == 63
        await handle.close()
        metadata = await check_closed(scene, handle.ledger_id, [writer])
        assert [first for first, _ in metadata.ensembles] == [0, 42]
        reading = await scene.client("r").open_ledger(handle.ledger_id)
        position = 0
        while position < 63:
            entries = await reading.read(position, 62)
            for entry in entries:
                assert entry[reading.payload_offset :] == writer.payloads[position]
                position += 1

    run(story())


def test_a_damaged_copy_is_read_from_another_replica() -> None:
    async def story() -> None:
        scene = Scene(3)
        client = scene.client("w")
        handle, writer = await new_ledger(client, (3, 3, 3))
        writer.append(*(b"entry %d" % i for i in range(10)))
        await answered(writer)
        await handle.close()
        for name in members(handle)[:2]:
            scene.cluster.bookies[name].damage(handle.ledger_id, 4)
        reading = await client.open_ledger(handle.ledger_id)
        payloads: list[bytes] = []
        while len(payloads) < 10:
            payloads += [entry[reading.payload_offset :] for entry in await reading.read(len(payloads), 9)]
        assert payloads == list(writer.payloads.values())
        scene.cluster.bookies[members(handle)[2]].damage(handle.ledger_id, 4)
        with pytest.raises(DigestMismatch):
            await reading.read(4, 9)

    run(story())


def test_the_wrong_password_opens_nothing_and_writes_nothing() -> None:
    async def story() -> None:
        scene = Scene(1)
        client = scene.client("w")
        handle = await client.create_ledger(password=b"right", digest_type=DigestType.HMAC)
        await handle.add(b"a")
        with pytest.raises(UnauthorizedAccess):
            await client.open_ledger(handle.ledger_id, password=b"wrong")
        assert (await scene.metadata(handle.ledger_id)).state is LedgerState.OPEN
        reading = await client.open_ledger(handle.ledger_id, password=b"right")
        assert (await reading.read(0, 0))[0][reading.payload_offset :] == b"a"

    run(story())


def test_a_ledger_being_written_is_readable_up_to_the_last_confirmed_entry() -> None:
    async def story() -> None:
        scene = Scene(3)
        handle, writer = await new_ledger(scene.client("w"), (3, 3, 2))
        for i in range(3):
            await handle.add(b"entry %d" % i)
        reading = await scene.client("r").open_ledger(handle.ledger_id, recover=False)
        assert (reading.last_add_confirmed, reading.is_closed) == (1, False)
        assert len(await reading.read(0, 1)) == 2
        assert await handle.add(b"the writer goes on") == 3
        assert writer.failed == []

    run(story())
