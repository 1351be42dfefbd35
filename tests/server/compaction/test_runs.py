"""Compaction of a whole log: what a reader sees before, during and after it, with faults and deaths at every step."""

import asyncio

import pytest

from magnetar.metadata.errors import StoreWriteError
from magnetar.server.compaction.last_message import last_kept, mark_delete_seen
from magnetar.server.compaction.topic_compaction import (
    COMPACTION_CURSOR,
    LEDGER_PROPERTY,
    AlreadyRunning,
    CompactionService,
    RunState,
    RunStatus,
    TopicCompaction,
)
from magnetar.server.topics.subscriptions.compacted_view import CompactedView
from magnetar.storage.ledger.ledger_errors import WriteFault
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import MetaStoreFault, NoSuchCursor
from pulsar_proto.ids import EARLIEST, LATEST, Position
from tests.server.compaction.messages import Sent, batch, contents, last_of_each_key, single
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import CONFIG, DELETE_AT_ONCE, NAME, append, factory_of, quiet

TOPIC = "persistent://public/default/t"
MESSAGES = [Sent(f"k{at % 4}", b"%d" % at) for at in range(18)]


class Process:
    """One run of a broker process with one topic."""

    def __init__(self, world: World, config: object = CONFIG) -> None:
        self.world = world
        self.client = world.session()
        self.factory = factory_of(self.client, config)  # type: ignore[arg-type]
        self.ledger: ManagedLedger
        self.compaction: TopicCompaction

    async def open(self) -> "Process":
        self.ledger = await self.factory.open(NAME)
        service = CompactionService(self.client.as_client(), self.factory.reaper.bury, lambda: 1)
        self.compaction = TopicCompaction(TOPIC, self.ledger, service)
        return self

    async def send(self, messages: list[Sent]) -> None:
        for message in messages:
            assert (await append(self.ledger, single(message))).error is None

    async def compact(self) -> RunStatus:
        self.compaction.trigger()
        await self.compaction.idle()
        return self.compaction.status

    def reader(self, start: Position = EARLIEST) -> tuple[CompactedView, Cursor]:
        cursor = self.ledger.new_non_durable_cursor(start)
        return CompactedView("reader", self.ledger, self.compaction, cursor), cursor

    async def read(self, start: Position = EARLIEST, at_most: int = 100) -> list[Sent]:
        """Returns what a new reader gets, in reads of at most `at_most` entries."""
        view, _ = self.reader(start)
        position = view.start(start)
        found: list[Sent] = []
        while position <= view.last_confirmed:
            run = view.cached(position, at_most, 1 << 20) or await view.read(position, at_most, 1 << 20)
            if not run.entries:
                break
            messages = view.messages_of(run)
            found += [sent for payload in messages.payloads for _, sent in contents(payload)]
            position = Position(run.ledger_id, run.end_entry_id)
        return found

    def compacted_ledgers(self) -> list[int]:
        """Returns every compacted ledger that exists."""
        known = self.world.ledgers.items()
        return [each for each, ledger in known if ledger.custom_metadata.get("component") == b"compacted-ledger"]


def last_messages(messages: list[Sent]) -> list[Sent]:
    return [sent for _, sent in last_of_each_key(list(enumerate(messages)), retain_null_key=False)]


@pytest.mark.parametrize("at_most", [1, 3, 100])
async def test_a_reader_gets_the_compacted_messages_then_the_tail(at_most: int) -> None:
    process = await Process(World()).open()
    await process.send(MESSAGES)
    assert await process.read(at_most=at_most) == MESSAGES
    assert await process.compact() == RunStatus(RunState.SUCCESS)
    assert await process.read(at_most=at_most) == last_messages(MESSAGES)
    tail = [Sent("k1", b"new"), Sent("k2", b""), Sent("k1", b"newer")]
    await process.send(tail)
    assert await process.read(at_most=at_most) == last_messages(MESSAGES) + tail
    await process.compact()
    assert await process.read(at_most=at_most) == last_messages(MESSAGES + tail)


async def test_the_ledger_says_whose_it_is_and_only_one_stays() -> None:
    process = await Process(World()).open()
    await process.send(MESSAGES)
    await process.compact()
    await process.send([Sent("k0", b"x")])
    await process.compact()
    await process.factory.reaper.idle()
    (ledger_id,) = process.compacted_ledgers()
    cursor = process.ledger.cursors[COMPACTION_CURSOR]
    assert cursor.position_properties == {LEDGER_PROPERTY: ledger_id}
    assert process.compaction.horizon == process.ledger.last_confirmed
    metadata = process.world.ledgers[ledger_id].custom_metadata
    assert metadata["pulsar/compactedTopic"] == TOPIC.encode()
    last = process.ledger.last_confirmed
    assert metadata["pulsar/compactedTo"].startswith(bytes([0x08, last.ledger_id, 0x10, last.entry_id]))
    assert metadata["pulsar/compactedTo"].endswith(b"\x30\x00")  # batch_size is 0, as Apache stores it
    assert process.world.ledgers[ledger_id].closed


async def test_nothing_new_makes_no_new_ledger() -> None:
    process = await Process(World()).open()
    assert await process.compact() == RunStatus(RunState.SUCCESS)
    assert process.compacted_ledgers() == []
    await process.send(MESSAGES)
    await process.compact()
    before = process.compacted_ledgers()
    await process.compact()
    assert process.compacted_ledgers() == before
    assert process.compaction.counters.succeeded == 3
    assert process.compaction.counters.removed == 14


async def test_a_topic_of_deleted_keys_compacts_to_nothing() -> None:
    process = await Process(World(), DELETE_AT_ONCE).open()
    await process.compaction.hold_messages()
    await process.send([Sent("a", b"1"), Sent("a", b"")])
    await process.compact()
    assert await process.read() == []
    assert await last_kept("t", process.compaction, process.ledger.last_confirmed) == (EARLIEST, -1)
    await process.send([Sent("b", b"2")])
    assert await process.read() == [Sent("b", b"2")]


async def test_what_is_compacted_may_be_trimmed_and_is_still_read() -> None:
    process = await Process(World(), DELETE_AT_ONCE).open()
    await process.compaction.hold_messages()
    await process.send(MESSAGES)
    assert await process.read() == MESSAGES  # the subscription holds every message until compaction has run
    await process.compact()
    await quiet(process.world)
    assert process.ledger.number_of_entries < 5
    assert await process.read() == last_messages(MESSAGES)
    start = Position(process.ledger.first_position.ledger_id, 0)
    assert await process.read(start) == last_messages(MESSAGES)[-len(await process.read(start)) :]
    found = await last_kept("t", process.compaction, process.ledger.last_confirmed)
    assert found is not None
    view, cursor = process.reader()
    assert mark_delete_seen(EARLIEST, cursor, process.ledger.first_position) < found[0]
    run = await view.read(view.start(EARLIEST), 100, 1 << 20)
    assert view.unacked_runs(run.ledger_id, run.first_entry_id, 1) == [(run.first_entry_id, 1)]


async def test_who_asked_for_new_messages_only_gets_none_of_the_compacted() -> None:
    process = await Process(World(), DELETE_AT_ONCE).open()
    await process.compaction.hold_messages()
    await process.send(MESSAGES)
    await process.compact()
    await quiet(process.world)
    view, cursor = process.reader(LATEST)
    assert view.start(None) > process.ledger.last_confirmed
    assert mark_delete_seen(None, cursor, process.ledger.first_position) == cursor.mark_delete


async def test_batches_are_read_without_what_went() -> None:
    process = await Process(World()).open()
    entry = batch([Sent("a", b"1"), Sent("b", b"2"), Sent("a", b"3")])
    assert (await append(process.ledger, entry)).error is None
    await process.send([Sent("b", b"4")])
    await process.compact()
    view, _ = process.reader()
    run = await view.read(EARLIEST, 100, 1 << 20)
    messages = view.messages_of(run)
    assert list(messages.entry_ids) == [0, 1]
    assert view.ack_set_of(run.ledger_id, 0) == [0b100]
    assert view.ack_set_of(run.ledger_id, 1) is None


async def test_a_reader_in_the_middle_goes_on_when_the_ledger_is_replaced() -> None:
    process = await Process(World()).open()
    await process.send(MESSAGES)
    await process.compact()
    view, _ = process.reader()
    first = await view.read(view.start(EARLIEST), 2, 1 << 20)
    await process.send([Sent("k0", b"new")])
    await process.compact()
    await process.factory.reaper.idle()
    rest = await view.read(Position(first.ledger_id, first.end_entry_id), 100, 1 << 20)
    seen = [sent for payload in [*first.entries, *rest.entries] for _, sent in contents(payload)]
    assert len({sent.key for sent in seen}) == 4
    assert seen[-1] == Sent("k0", b"new") or await process.read() == last_messages([*MESSAGES, Sent("k0", b"new")])


async def test_only_one_run_at_a_time() -> None:
    process = await Process(World()).open()
    await process.send(MESSAGES)
    process.compaction.trigger()
    assert process.compaction.status == RunStatus(RunState.RUNNING)
    with pytest.raises(AlreadyRunning, match="Compaction already in progress"):
        process.compaction.trigger()
    await process.compaction.idle()
    assert process.compaction.status == RunStatus(RunState.SUCCESS)


async def test_a_failed_run_is_told_and_leaves_everything_as_it_was() -> None:
    process = await Process(World()).open()
    await process.send(MESSAGES)
    await process.compact()
    before = process.compacted_ledgers()
    await process.send([Sent("k0", b"new")])
    process.world.create_error = WriteFault("no bookies")
    status = await process.compact()
    assert status.state is RunState.ERROR
    assert "no bookies" in status.last_error
    process.world.create_error = None
    process.world.append_error = WriteFault("disk full")
    assert (await process.compact()).state is RunState.ERROR
    process.world.append_error = None
    assert process.compacted_ledgers() == before
    assert await process.read() == [*last_messages(MESSAGES), Sent("k0", b"new")]
    assert process.compaction.counters.failed == 2
    assert (await process.compact()).state is RunState.SUCCESS


async def test_what_is_replaced_stays_until_the_swap_is_durable() -> None:
    process = await Process(World(), DELETE_AT_ONCE).open()
    await process.compaction.hold_messages()
    await process.send(MESSAGES)
    await process.compact()
    await quiet(process.world)
    (first,) = process.compacted_ledgers()
    later = [Sent(f"n{at}", b"x") for at in range(8)]
    await process.send(later)
    entries = process.ledger.number_of_entries
    process.world.put_error = StoreWriteError("/", "metadata is down")
    for handle in process.client.handles:
        if handle.ledger_id == process.ledger.cursors[COMPACTION_CURSOR].ledger_id:
            handle.end(WriteFault("so that the cursor needs another ledger"))
    assert (await process.compact()).state is RunState.ERROR
    await quiet(process.world)
    assert first in process.compacted_ledgers()
    assert process.ledger.number_of_entries == entries, "nothing was trimmed"
    assert await process.read() == last_messages(MESSAGES + later)
    process.world.put_error = None
    await process.send([Sent("n0", b"y")])
    assert (await process.compact()).state is RunState.SUCCESS
    await quiet(process.world)
    assert len(process.compacted_ledgers()) == 1
    assert process.ledger.number_of_entries < entries
    assert await process.read() == last_messages([*MESSAGES, *later, Sent("n0", b"y")])


async def test_a_clean_close_keeps_what_is_compacted() -> None:
    world = World()
    process = await Process(world, DELETE_AT_ONCE).open()
    await process.compaction.hold_messages()
    await process.send(MESSAGES)
    await process.compact()
    await process.compaction.close()
    await process.factory.close()
    process = await Process(world, DELETE_AT_ONCE).open()
    assert await process.read() == last_messages(MESSAGES)
    assert (await process.compact()).state is RunState.SUCCESS
    assert await process.read() == last_messages(MESSAGES)


async def test_closing_ends_a_run_at_any_step_without_a_trace() -> None:
    """What the run has made until then is deleted, or in use."""
    for step in range(1, 2_000):
        process = await Process(World(), DELETE_AT_ONCE).open()
        await process.send(MESSAGES)
        process.compaction.trigger()
        for _ in range(step):
            await asyncio.sleep(0)
        before = process.compaction.status.state
        await process.compaction.close()
        await quiet(process.world)
        assert set(process.compacted_ledgers()) <= set(process.compaction.ledger_ids), step
        if before is not RunState.RUNNING:
            return


async def test_who_gives_up_compaction_holds_nothing_and_leaves_nothing_behind() -> None:
    world = World()
    process = await Process(world, DELETE_AT_ONCE).open()
    await process.compaction.hold_messages()
    await process.send(MESSAGES)
    await process.compact()
    tail = [Sent("k9", b"%d" % at) for at in range(3)]
    await process.send(tail)
    view, _ = process.reader()
    first = await view.read(view.start(EARLIEST), 2, 1 << 20)
    process.compaction.trigger()
    await process.compaction.give_up()
    await quiet(world)
    assert process.compacted_ledgers() == []
    assert (process.compaction.cursor, process.compaction.ledger_id) == (None, None)
    assert process.compaction.status.state is RunState.ERROR, "the run was ended"
    assert process.ledger.number_of_entries < len(tail), "nothing is held"
    rest = await view.read(Position(first.ledger_id, first.end_entry_id), 100, 1 << 20)
    assert len(rest.entries) <= len(tail), "a reader in the middle goes on in the log"
    with pytest.raises(NoSuchCursor):
        await process.compaction.give_up()
    await process.compaction.hold_messages()
    await process.send(MESSAGES)
    assert (await process.compact()).state is RunState.SUCCESS
    assert last_messages(MESSAGES)[-1] in await process.read()


async def test_a_cursor_that_cannot_be_deleted_keeps_what_is_compacted() -> None:
    process = await Process(World()).open()
    await process.send(MESSAGES)
    await process.compact()
    before = process.compacted_ledgers()
    process.compaction._ledger = Undeletable(process.ledger)  # type: ignore[assignment]
    with pytest.raises(MetaStoreFault):
        await process.compaction.give_up()
    await quiet(process.world)
    assert process.compacted_ledgers() == before
    assert await process.read() == last_messages(MESSAGES)


class Undeletable:
    def __init__(self, ledger: ManagedLedger) -> None:
        self._real = ledger

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    async def delete_cursor(self, name: str) -> None:
        raise MetaStoreFault(name, "metadata is down")


async def test_what_is_replaced_and_unsettled_counts_among_the_ledgers_to_delete() -> None:
    process = await Process(World(), DELETE_AT_ONCE).open()
    await process.send(MESSAGES)
    await process.compact()
    await process.send([Sent("k0", b"new")])
    process.world.put_error = StoreWriteError("/", "metadata is down")
    for handle in process.client.handles:
        if handle.ledger_id == process.ledger.cursors[COMPACTION_CURSOR].ledger_id:
            handle.end(WriteFault("so that the cursor needs another ledger"))
    assert (await process.compact()).state is RunState.ERROR
    process.world.put_error = None
    assert len(process.compacted_ledgers()) == 2
    assert sorted(process.compaction.ledger_ids) == sorted(process.compacted_ledgers())


async def test_a_threshold_starts_a_run() -> None:
    process = await Process(World()).open()
    await process.send(MESSAGES)
    process.compaction.check(0, lambda: 10**9)
    process.compaction.check(1000, lambda: 1000)
    assert process.compaction.status == RunStatus(RunState.NOT_RUN)
    process.compaction.check(1000, lambda: 1001)
    await process.compaction.idle()
    assert process.compaction.status == RunStatus(RunState.SUCCESS)


@pytest.mark.parametrize("after_effect", [False, True])
async def test_a_death_at_any_step_loses_no_key(after_effect: bool) -> None:
    """The log is compacted twice, with ledgers deleted as soon as possible, and the process dies during the second
    run."""
    later = [Sent("k1", b"new"), *(Sent(f"n{at}", b"x") for at in range(8))]
    expected = last_messages(MESSAGES + later)
    for step in range(1, 80):
        world = World()
        process = await Process(world, DELETE_AT_ONCE).open()
        await process.compaction.hold_messages()
        await process.send(MESSAGES)
        await process.compact()
        await process.send(later)
        await quiet(world)
        world.steps.die_at, world.steps.die_after_effect = world.steps.taken + step, after_effect
        process.compaction.trigger()
        running = asyncio.ensure_future(process.compaction.idle())
        dead = asyncio.ensure_future(world.steps.dead.wait())
        await asyncio.wait([running, dead], return_when=asyncio.FIRST_COMPLETED)
        if not dead.done():
            await quiet(world)
        survived = not world.steps.dead.is_set()
        await world.bury()
        process = await Process(world, DELETE_AT_ONCE).open()
        found = await process.read()
        assert {sent.key: sent for sent in found} == {sent.key: sent for sent in expected}, step
        assert (await process.compact()).state is RunState.SUCCESS
        assert await process.read() == expected, step
        await world.bury()
        if survived:
            assert step > 5, "create, append, close, the cursor twice, deletions"
            return
    raise AssertionError("a run takes fewer steps")
