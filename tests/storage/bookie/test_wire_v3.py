"""What the bookie's port answers to v3 alone: LACs and long polls, disk space, and lists of entries."""

import asyncio

from magnetar.storage.bookie import wire_limits
from magnetar.storage.bookie.disks import DiskSpace
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.records.entry_digest import DigestType, EntryCodec
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire import entry_availability
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, ReadFlags
from tests.storage.bookie.helpers import KEY, entries_of, entry_of
from tests.storage.bookie.wire_support import FREE_BYTES, OTHER, TOTAL_BYTES, MemoryBookie, Served, adds
from tests.waiting import until


async def ask_v3(served: Served, request: pb.Request) -> pb.Response:
    peer = await served.peer()
    response = v3.parse_response((await peer.ask(v3.frame(request)))[4:])
    await peer.close()
    return response


def long_poll(previous_lac: int, timeout_ms: int = 60_000, ledger_id: int = 5) -> pb.Request:
    return v3.long_poll_request(1, ledger_id, previous_lac, timeout_ms)


async def test_plain_reads_of_v3_tell_the_known_lac_and_fences_do_not(served: Served) -> None:
    """As with Apache's bookie, only the answer to a fence lacks maxLAC."""
    peer = await served.peer()
    peer.writer.write(adds(5, range(4)))
    for _ in range(4):
        await peer.answer()
    v3_peer = await served.peer()
    read = v3.parse_response((await v3_peer.ask(v3.read_request(1, 5, 0)))[4:]).readResponse
    assert (read.entryId, read.body, read.maxLAC) == (0, entry_of(5, 0), 2)
    fence = v3.parse_response((await v3_peer.ask(v3.read_request(2, 5, -1, ReadFlags.FENCING, KEY)))[4:]).readResponse
    assert (fence.entryId, fence.body, fence.HasField("maxLAC")) == (-1, entry_of(5, 3), False)


async def test_the_lac_of_a_ledger_from_before_the_start_is_that_of_its_last_entry(served: Served) -> None:
    before = MemoryBookie()
    before.add_entries(5, KEY, range(3), entries_of(5, range(3)), 0, lambda ids, rc: None)
    served.bookie.ledgers = before.ledgers
    peer = await served.peer()
    assert v3.parse_response((await peer.ask(v3.read_request(1, 5, 0)))[4:]).readResponse.maxLAC == 1


async def test_a_refused_add_does_not_move_the_lac(served: Served) -> None:
    peer = await served.peer()
    await peer.ask(adds(5, range(2)))
    await peer.answer()
    await peer.ask(v2.add_request(OTHER, entry_of(5, 100)))
    v3_peer = await served.peer()
    assert v3.parse_response((await v3_peer.ask(v3.read_request(1, 5, 0)))[4:]).readResponse.maxLAC == 0


async def test_a_long_poll_waits_for_the_lac_and_brings_the_entry_after_the_one_known(served: Served) -> None:
    peer = await served.peer()
    await peer.ask(adds(5, range(1)))
    waiting = asyncio.create_task(ask_v3(served, long_poll(-1)))
    late = asyncio.create_task(ask_v3(served, long_poll(5)))
    await until(lambda: served.server.parked_long_polls == 2)
    await peer.ask(adds(5, range(1, 2)))
    read = (await waiting).readResponse
    assert (read.entryId, read.body, read.maxLAC) == (0, entry_of(5, 0), 0)
    assert read.lacUpdateTimestamp > 1_500_000_000_000
    assert served.server.parked_long_polls == 1
    late.cancel()


async def test_a_long_poll_whose_time_is_over_brings_the_lac_alone(served: Served) -> None:
    await (await served.peer()).ask(adds(5, range(1)))
    read = (await ask_v3(served, long_poll(0, timeout_ms=1))).readResponse
    assert (read.status, read.entryId, read.maxLAC, read.HasField("body")) == (pb.EOK, -1, -1, False)


async def test_a_fence_wakes_those_who_wait_for_the_writer(served: Served) -> None:
    await (await served.peer()).ask(adds(5, range(1)))
    waiting = asyncio.create_task(ask_v3(served, long_poll(0)))
    await until(lambda: served.server.parked_long_polls == 1)
    await (await served.peer()).ask(v2.read_request(5, -1, ReadFlags.FENCING, KEY))
    assert (await waiting).readResponse.maxLAC == -1
    assert (await ask_v3(served, long_poll(0))).readResponse.maxLAC == -1


async def test_a_long_poll_on_an_unknown_ledger_or_for_a_certain_entry_is_refused(served: Served) -> None:
    """Apache's bookie answers ENOLEDGER too."""
    assert (await ask_v3(served, long_poll(-1))).readResponse.status == pb.ENOLEDGER
    await (await served.peer()).ask(adds(5, range(1)))
    request = long_poll(-1)
    request.readRequest.entryId = 0
    assert (await ask_v3(served, request)).readResponse.status == pb.EBADREQ


async def test_parked_long_polls_hold_up_no_other_call(served: Served) -> None:
    peer = await served.peer()
    await peer.ask(adds(5, range(1)))
    many = await served.peer()
    polls = wire_limits.CALLS_AT_ONCE * 3
    many.writer.write(b"".join(v3.frame(long_poll(0)) for _ in range(polls)))
    await until(lambda: served.server.parked_long_polls == polls)
    request = v3.new_request(pb.FORCE_LEDGER, 9)
    request.forceLedgerRequest.ledgerId = 12345
    assert v3.parse_response((await many.ask(v3.frame(request)))[4:]).forceLedgerResponse.status == pb.EOK
    await many.close()
    await until(lambda: served.server.parked_long_polls == 0)


async def test_an_explicit_lac_never_goes_back_and_is_eio_without_an_entry(served: Served) -> None:
    """Apache's bookie answers EIO too, but lets an explicit LAC go back."""

    codec = EntryCodec(5, DigestType.CRC32C, b"")
    seven, two, nine = (codec.pack_lac(lac) for lac in (7, 2, 9))

    async def write(lac: int, body: bytes, key: bytes = KEY) -> int:
        request = v3.new_request(pb.WRITE_LAC, 1)
        write = request.writeLacRequest
        write.ledgerId, write.lac, write.masterKey, write.body = 5, lac, key, body
        return (await ask_v3(served, request)).writeLacResponse.status

    async def read() -> tuple[int, bytes, bytes]:
        request = v3.new_request(pb.READ_LAC, 1)
        request.readLacRequest.ledgerId = 5
        answer = (await ask_v3(served, request)).readLacResponse
        return answer.status, answer.lacBody, answer.lastEntryBody

    assert await read() == (pb.ENOENTRY, b"", b"")
    assert await write(7, seven) == pb.EOK
    assert await read() == (pb.EIO, seven, b"")
    await (await served.peer()).ask(adds(5, range(1)))
    assert await write(2, two) == pb.EOK
    assert await read() == (pb.EOK, seven, entry_of(5, 0))
    assert await write(9, nine, OTHER) == pb.EUA
    served.bookie.ledgers[5].fenced = True
    assert await write(9, nine) == pb.EOK


async def test_bookie_info_fills_what_was_asked_for(served: Served) -> None:
    for requested, filled in ((3, (TOTAL_BYTES, FREE_BYTES)), (1, (TOTAL_BYTES, 0)), (2, (0, FREE_BYTES)), (0, (0, 0))):
        request = v3.new_request(pb.GET_BOOKIE_INFO, 1)
        request.getBookieInfoRequest.requested = requested
        info = (await ask_v3(served, request)).getBookieInfoResponse
        assert (info.totalDiskCapacity, info.freeDiskSpace) == filled
        assert info.HasField("freeDiskSpace") == bool(requested & v3.FREE_DISK_SPACE)


async def test_lists_of_entries_name_all_of_them(served: Served) -> None:
    peer = await served.peer()
    for entry_id in (0, 1, 5):
        await peer.ask(adds(5, range(entry_id, entry_id + 1)))
    request = v3.new_request(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, 1)
    request.getListOfEntriesOfLedgerRequest.ledgerId = 5
    answer = (await ask_v3(served, request)).getListOfEntriesOfLedgerResponse
    assert entry_availability.decode(answer.availabilityOfEntriesOfLedger) == [range(2), range(5, 6)]
    request.getListOfEntriesOfLedgerRequest.ledgerId = 6
    assert (await ask_v3(served, request)).getListOfEntriesOfLedgerResponse.status == pb.ENOLEDGER


async def test_a_long_poll_after_a_restart_sees_the_explicit_lac(served: Served) -> None:
    await (await served.peer()).ask(adds(5, range(3)))
    codec = EntryCodec(5, DigestType.CRC32C, b"")
    served.bookie.ledgers[5].explicit_lac = codec.pack_lac(2)  # the state is what the bookie finds when it starts
    served.server._calls.lacs.deleted(5)
    request = v3.new_request(pb.READ_ENTRY, 1)
    read = request.readRequest
    read.ledgerId, read.entryId, read.previousLAC, read.timeOut = 5, LAST_ENTRY, 1, 60_000
    read.flag = pb.ReadRequest.ENTRY_PIGGYBACK
    answer = (await ask_v3(served, request)).readResponse
    assert (answer.maxLAC, answer.entryId) == (2, 2)


async def test_a_body_that_is_no_lac_packet_is_refused(served: Served) -> None:
    write = v3.new_request(pb.WRITE_LAC, 1)
    write.writeLacRequest.CopyFrom(pb.WriteLacRequest(ledgerId=5, lac=0, masterKey=KEY, body=b"x"))
    assert (await ask_v3(served, write)).writeLacResponse.status == pb.EBADREQ


async def test_long_polls_end_with_their_ledger_and_with_the_bookie(served: Served) -> None:
    polls = {}
    for ledger_id in (5, 6):
        await (await served.peer()).ask(adds(ledger_id, range(1)))
        request = v3.new_request(pb.READ_ENTRY, ledger_id)
        read = request.readRequest
        read.ledgerId, read.entryId, read.previousLAC, read.timeOut = ledger_id, LAST_ENTRY, 0, 60_000
        read.flag = pb.ReadRequest.ENTRY_PIGGYBACK
        polls[ledger_id] = await served.peer()
        polls[ledger_id].writer.write(v3.frame(request))
    await until(lambda: served.server.parked_long_polls == 2)
    del served.bookie.ledgers[5]
    served.server.ledgers_deleted([5])
    assert v3.parse_response((await polls[5].answer())[4:]).readResponse.status == pb.ENOLEDGER
    assert served.server.parked_long_polls == 1
    await served.server.close()
    assert v3.parse_response((await polls[6].answer())[4:]).readResponse.maxLAC == -1


def test_each_file_system_is_counted_once(tmp_path: object) -> None:
    once, twice = DiskSpace([str(tmp_path)])(), DiskSpace([str(tmp_path), str(tmp_path)])()
    assert once[0] == twice[0]
    assert 0 < once[1] <= once[0]
