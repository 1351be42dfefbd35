"""The bookie's port: grouping, order, bounds and back-pressure, and peers that break the rules."""

import asyncio
import logging

import pytest

from magnetar.storage.bookie import wire_limits
from magnetar.storage.bookie.wire_limits import WireLimits
from magnetar.storage.bookie.wire_peer import WirePeer
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, AddFlags, BookieRc, ReadFlags
from tests.storage.bookie.helpers import KEY, entries_of, entry_of
from tests.storage.bookie.wire_support import OTHER, Served, adds
from tests.waiting import until


async def connections(served: Served, count: int) -> list[WirePeer]:
    await until(lambda: served.server.connection_count == count)
    return list(served.server.connections)


async def test_adds_of_one_write_reach_the_bookie_as_one_group_and_are_answered_in_order(served: Served) -> None:
    peer = await served.peer()
    peer.writer.write(adds(5, range(100)))
    for entry_id in range(100):
        assert await peer.answer() == v2.add_response(BookieRc.EOK, 5, entry_id)
    assert served.bookie.groups == [(5, list(range(100)))]
    assert served.bookie.ids_were_ranges == [True]
    assert served.bookie.ledgers[5].entries == dict(enumerate(entries_of(5, range(100))))


async def test_the_answers_of_one_turn_leave_with_one_write(served: Served) -> None:
    peer = await served.peer()
    served.bookie.hold()
    peer.writer.write(adds(5, range(10)) + adds(6, range(10)) + v2.read_request(99, 0))
    await until(lambda: len(served.bookie.groups) == 2)
    await peer.answer()
    served.bookie.release()
    answers = await asyncio.wait_for(peer.reader.read(1 << 16), 60)
    assert len(answers) == 20 * 28


async def test_nothing_is_answered_before_the_bookie_says_so(served: Served) -> None:
    peer = await served.peer()
    served.bookie.hold()
    peer.writer.write(adds(5, range(3)))
    await until(lambda: served.bookie.groups)
    assert await peer.ask(v2.read_request(5, 1)) == v2.read_response(BookieRc.EOK, 5, 1, entry_of(5, 1, b""))
    served.bookie.release()
    assert await peer.answer() == v2.add_response(BookieRc.EOK, 5, 0)


async def test_a_run_of_reads_is_one_call_and_a_missing_entry_costs_its_own_answer_only(served: Served) -> None:
    peer = await served.peer()
    for entry_id in (0, 1, 3):
        await peer.ask(adds(5, range(entry_id, entry_id + 1)))
    peer.writer.write(b"".join(v2.read_request(5, entry_id) for entry_id in range(5)))
    answers = [v2.decode_response((await peer.answer())[4:]) for _ in range(5)]
    assert [(answer.entry_id, answer.rc) for answer in answers] == [(0, 0), (1, 0), (2, 2), (3, 0), (4, 2)]
    assert [answer.entries for answer in answers if not answer.rc] == [(entry_of(5, i),) for i in (0, 1, 3)]
    assert served.bookie.read_calls[0] == (5, 0, 5)


async def test_batch_reads_count_entries_and_bytes_as_java_does(served: Served) -> None:
    """Apache's BatchedReadEntryProcessor counts in this way: the sum starts at 36 and grows by 4 + length for each
    entry. The first entry is always sent."""
    peer = await served.peer()
    peer.writer.write(adds(5, range(10), size=100))
    for _ in range(10):
        await peer.answer()
    size = 4 + len(entries_of(5, range(1), 100)[0])

    async def batch(first: int, count: int, max_size: int) -> list[int]:
        answer = v2.decode_response((await peer.ask(v2.batch_read_request(5, first, 1, count, max_size)))[4:])
        assert answer.entry_id == first
        return [int.from_bytes(entry[8:16], "big") for entry in answer.entries] if not answer.rc else [-answer.rc]

    assert await batch(2, 3, 1 << 20) == [2, 3, 4]
    assert await batch(7, 100, 1 << 20) == [7, 8, 9]
    assert await batch(0, 0, 1 << 20) == list(range(10))
    assert await batch(0, 100, 36 + 3 * size) == [0, 1, 2]
    assert await batch(0, 100, 36 + 3 * size - 1) == [0, 1]
    assert await batch(0, 100, -5) == [0]
    assert await batch(10, 5, 1 << 20) == [-BookieRc.ENOENTRY]


async def test_a_fence_over_one_connection_stops_a_writer_on_another(served: Served) -> None:
    writer, recoverer = await served.peer(), await served.peer()
    await writer.ask(adds(5, range(1)))
    fence = v2.read_request(5, LAST_ENTRY, ReadFlags.FENCING, KEY)
    assert await recoverer.ask(fence) == v2.read_response(BookieRc.EOK, 5, LAST_ENTRY, entry_of(5, 0))
    assert await writer.ask(adds(5, range(1, 2))) == v2.add_response(BookieRc.EFENCED, 5, 1)
    recovery = adds(5, range(1, 2), flags=AddFlags.RECOVERY_ADD | AddFlags.HIGH_PRIORITY)
    assert await recoverer.ask(recovery) == v2.add_response(BookieRc.EOK, 5, 1)
    wrong = v2.read_request(5, LAST_ENTRY, ReadFlags.FENCING, OTHER)
    assert await recoverer.ask(wrong) == v2.read_response(BookieRc.EUA, 5, LAST_ENTRY)


async def test_a_slow_disk_read_holds_up_neither_adds_nor_fences(served: Served) -> None:
    peer = await served.peer()
    await peer.ask(adds(5, range(1)))
    served.bookie.reads_may_go_on.clear()
    peer.writer.write(v2.read_request(5, 0) + v2.batch_read_request(5, 0, 1, 1, 100))
    await until(lambda: served.bookie.reading == 2)
    assert await peer.ask(adds(5, range(1, 2))) == v2.add_response(BookieRc.EOK, 5, 1)
    peer.writer.write(v2.read_request(5, LAST_ENTRY, ReadFlags.FENCING, KEY))
    await until(lambda: served.bookie.ledgers[5].fenced)
    served.bookie.reads_may_go_on.set()
    assert {(await peer.answer())[5] for _ in range(3)} == {2, 7}


async def test_only_so_many_reads_of_a_peer_are_under_way_at_once(served: Served) -> None:
    peer = await served.peer()
    await peer.ask(adds(5, range(1)))
    served.bookie.reads_may_go_on.clear()
    peer.writer.write(b"".join(v2.read_request(5, 0) for _ in range(100)))
    await until(lambda: served.bookie.reading == wire_limits.READS_AT_ONCE)
    served.bookie.reads_may_go_on.set()
    for _ in range(100):
        assert (await peer.answer())[8:12] == bytes(4)
    assert served.bookie.reading_max == wire_limits.READS_AT_ONCE


async def test_a_peer_that_asks_for_too_much_is_not_read_until_it_was_served(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_limits, "QUEUE_MAX", 50)
    peer = await served.peer()
    await peer.ask(adds(5, range(1)))
    served.bookie.reads_may_go_on.clear()
    peer.writer.write(b"".join(v2.read_request(5, 0) for _ in range(200)))
    (connection,) = served.server.connections
    await until(lambda: connection.is_paused)
    served.bookie.reads_may_go_on.set()
    for _ in range(200):
        assert (await peer.answer())[8:12] == bytes(4)
    assert not connection.is_paused


async def test_a_peer_with_too_many_unanswered_adds_is_not_read_until_half_are_answered(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_limits, "INFLIGHT_BYTES_MAX", 10_000)
    peer = await served.peer()
    served.bookie.hold()
    peer.writer.write(adds(5, range(11), size=1_000))
    (connection,) = await connections(served, 1)
    await until(lambda: connection.is_paused)
    taken = len(served.bookie.groups)
    peer.writer.write(adds(5, range(11, 12)))
    other = await served.peer()
    assert (await other.ask(v2.read_request(5, 0)))[8:12] == bytes(4)
    assert len(served.bookie.groups) == taken
    served.bookie.release()
    for _ in range(12):
        await peer.answer()
    assert not connection.is_paused
    assert served.server.inflight_bytes == 0


async def test_all_peers_together_share_a_budget() -> None:
    served = await Served.start(WireLimits(inflight_bytes_max=10_000))
    served.bookie.hold()
    first, second = await served.peer(), await served.peer()
    both = await connections(served, 2)
    first.writer.write(adds(5, range(11), size=1_000))
    await until(lambda: sum(c.is_paused for c in both) == 1)
    second.writer.write(adds(6, range(1)))
    await until(lambda: all(c.is_paused for c in both))
    served.bookie.release()
    for _ in range(11):
        await first.answer()
    await second.answer()
    assert not any(c.is_paused for c in both)
    await served.server.close()


async def test_a_peer_that_takes_no_answers_is_not_read_and_costs_bounded_memory(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_limits, "OUTPUT_HIGH_WATER_BYTES", 64 << 10)
    peer = await served.peer()
    peer.writer.write(adds(5, range(1), size=1 << 20))
    await peer.answer()
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    (connection,) = served.server.connections
    peer.writer.write(b"".join(v2.read_request(5, 0) for _ in range(200)))
    await until(lambda: connection.is_paused)
    assert len(served.bookie.read_calls) < 100
    peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(200):
        assert len(await peer.answer()) > 1 << 20
    assert not connection.is_paused


async def test_a_long_run_of_reads_waits_for_its_peer_to_take_the_answers(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_limits, "OUTPUT_HIGH_WATER_BYTES", 64 << 10)
    peer = await served.peer()
    for entry_id in range(40):
        await peer.ask(adds(5, range(entry_id, entry_id + 1), size=1 << 20))
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    (connection,) = served.server.connections
    peer.writer.write(b"".join(v2.read_request(5, entry_id) for entry_id in range(40)))
    await until(lambda: connection.is_paused)
    assert len(served.bookie.read_calls) < 30
    peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
    for entry_id in range(40):
        assert v2.decode_response((await peer.answer())[4:]).entry_id == entry_id


@pytest.mark.parametrize(
    "bad",
    [
        b"\0\0\0\0",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x04\x02\x63\0\0",
        b"\0\0\0\x05\x0a\x03\x08\x03\x10",
    ],
)
async def test_a_malformed_frame_costs_its_sender_the_connection_and_one_line(
    served: Served, bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    peer, other = await served.peer(), await served.peer()
    await other.ask(adds(6, range(1)))
    caplog.clear()
    assert await peer.ask(bad) == b""
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert (await other.ask(v2.read_request(6, 0)))[8:12] == bytes(4)


async def test_a_request_that_an_error_of_ours_hits_costs_its_sender_the_connection_alone(
    served: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clumsy:
        def take(self, data: bytes) -> None:
            raise RuntimeError("clumsy")

    peer = await served.peer()
    (connection,) = await connections(served, 1)
    monkeypatch.setattr(connection, "_session", Clumsy())
    caplog.set_level(logging.INFO)
    assert await peer.ask(adds(5, range(1))) == b""
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "closed: an error of ours" in caplog.text
    assert (await (await served.peer()).ask(v2.read_request(6, 0))) != b""


async def test_adds_before_a_malformed_frame_are_stored(served: Served) -> None:
    peer = await served.peer()
    assert await peer.ask(adds(5, range(2)) + b"\0\0\0\0") == b""
    assert sorted(served.bookie.ledgers[5].entries) == [0, 1]
    await until(lambda: served.server.inflight_bytes == 0)


async def test_the_longest_packet_is_taken_and_a_longer_one_is_not() -> None:
    served = await Served.start(WireLimits(packet_bytes_max=100_000))
    peer = await served.peer()
    rest = 100_000 - len(v2.add_request(KEY, entry_of(5, 0, b"x"))) + 1
    assert await peer.ask(v2.add_request(KEY, entry_of(5, 0, bytes(rest)))) == v2.add_response(0, 5, 0)
    assert await peer.ask(v2.add_request(KEY, entry_of(5, 1, bytes(rest + 1)))) == b""
    await served.server.close()


async def test_connections_beyond_the_bound_are_closed_and_the_others_go_on() -> None:
    served = await Served.start(WireLimits(connections_max=2))
    peers = [await served.peer() for _ in range(2)]
    assert await (await served.peer()).ask(adds(5, range(1))) == b""
    for number, peer in enumerate(peers):
        assert (await peer.ask(adds(5, range(number, number + 1))))[8:12] == bytes(4)
    await peers[0].close()
    await until(lambda: served.server.connection_count == 1)
    assert (await (await served.peer()).ask(adds(5, range(2, 3))))[8:12] == bytes(4)
    await served.server.close()


async def test_a_peer_that_leaves_takes_its_reads_and_polls_along(served: Served) -> None:
    peer = await served.peer()
    await peer.ask(adds(5, range(1)))
    served.bookie.reads_may_go_on.clear()
    peer.writer.write(v2.read_request(5, 0))
    await until(lambda: served.bookie.reading == 1)
    await peer.close()
    await until(lambda: served.bookie.reading == 0)
    await until(lambda: served.server.connection_count == 0)


async def test_closing_delivers_what_was_answered_and_ends_every_connection(served: Served) -> None:
    peer, other = await served.peer(), await served.peer()
    await other.ask(adds(6, range(1)))
    await peer.ask(adds(5, range(1)))
    await served.server.close()
    assert await peer.answer() == b""
    assert await other.answer() == b""
    with pytest.raises(OSError):
        await served.peer()
    await served.server.close()
