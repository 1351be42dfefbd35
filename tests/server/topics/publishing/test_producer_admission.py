"""Which producers a topic admits: names, the limit, access modes, and clients whose connections are dead."""

import asyncio

import pytest

from magnetar.server.topics.liveness import PROBED_MAX
from magnetar.server.topics.publishing.producer_access_rules import TOPIC_EPOCH
from magnetar.storage.managed.managed_ledger_errors import AppendFault
from pulsar_proto.errors import ProducerBusy, ProducerFenced, ServiceNotReady
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, Scene, settle


async def test_a_taken_name_is_refused_while_its_owner_lives() -> None:
    scene, old, new = Scene(), FakeConnection("/old"), FakeConnection("/new")
    await scene.producer(old, "p")
    with pytest.raises(ProducerBusy, match=r"Producer with name 'p' is already connected to topic '.*/t'"):
        await scene.producer(new, "p")
    with pytest.raises(ProducerBusy):
        await scene.producer(old, "p")
    old.is_alive = False
    second = await scene.producer(new, "p")
    assert scene.topic.producers == {"p": second}
    assert not old.is_open


async def test_the_newcomer_waits_for_the_probe_s_answer() -> None:
    scene, old, new = Scene(), FakeConnection("/old"), FakeConnection("/new")
    await scene.producer(old, "p")
    old.probe = asyncio.Event()
    coming = asyncio.ensure_future(scene.producer(new, "p"))
    await settle()
    assert not coming.done()
    old.close("reset by peer")
    old.probe.set()
    assert (await coming).cnx is new


async def test_a_generated_name_comes_back_from_a_new_connection_without_a_probe() -> None:
    scene, old, new = Scene(), FakeConnection("/old"), FakeConnection("/new")
    await scene.producer(old, "generated", user_provided_producer_name=False, epoch=0)
    second = await scene.producer(new, "generated", user_provided_producer_name=False, epoch=1)
    assert scene.topic.producers == {"generated": second}
    assert old.kinds == ["CLOSE_PRODUCER"]


async def test_too_many_producers_are_busy() -> None:
    scene, cnx = Scene(max_producers_per_topic=1), FakeConnection()
    await scene.producer(cnx)
    with pytest.raises(ProducerBusy, match="max producers limit"):
        await scene.producer(cnx)


async def test_a_connection_that_closed_meanwhile_gets_no_producer() -> None:
    scene, old, new = Scene(), FakeConnection("/old"), FakeConnection("/new")
    await scene.producer(old, "p")
    old.probe, old.is_alive = asyncio.Event(), False
    coming = asyncio.ensure_future(scene.producer(new, "p"))
    await settle()
    new.close("gone")
    old.probe.set()
    with pytest.raises(ServiceNotReady):
        await coming
    assert scene.topic.producers == {}


# --- exclusive access


async def test_exclusive_producers_keep_others_out_and_store_their_epoch() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx, "ex", producer_access_mode=pb.Exclusive)
    assert producer.topic_epoch == 0
    assert scene.ledger.properties == {TOPIC_EPOCH: "0"}
    with pytest.raises(ProducerFenced, match="Topic has an existing exclusive producer: ex"):
        await scene.producer(cnx, producer_access_mode=pb.Exclusive)
    with pytest.raises(ProducerBusy, match="Topic has an existing exclusive producer: ex"):
        await scene.producer(cnx)
    producer.close()
    assert (await scene.producer(cnx, "ex2", producer_access_mode=pb.Exclusive)).topic_epoch == 1
    scene.load()
    assert (await scene.producer(cnx)).topic_epoch == 1, "told to shared producers, too"


async def test_a_producer_that_was_replaced_cannot_come_back() -> None:
    scene, cnx = Scene(), FakeConnection()
    first = await scene.producer(cnx, "a", producer_access_mode=pb.Exclusive)
    second = await scene.producer(cnx, "b", producer_access_mode=pb.ExclusiveWithFencing)
    assert first.is_closed
    assert cnx.kinds == ["CLOSE_PRODUCER"]
    assert second.topic_epoch == 1
    second.close()
    with pytest.raises(ProducerFenced, match="Topic epoch has already moved"):
        await scene.producer(cnx, "a", producer_access_mode=pb.Exclusive, topic_epoch=0)
    assert (await scene.producer(cnx, "b", producer_access_mode=pb.Exclusive, topic_epoch=1)).topic_epoch == 1


async def test_waiting_producers_are_told_and_get_their_turn_in_order() -> None:
    scene, cnx, dead = Scene(), FakeConnection(), FakeConnection("/dead")
    first = await scene.producer(cnx, "first", producer_access_mode=pb.WaitForExclusive)
    lost = asyncio.ensure_future(scene.producer(dead, "lost", producer_access_mode=pb.WaitForExclusive))
    second = asyncio.ensure_future(scene.producer(cnx, "second", producer_access_mode=pb.WaitForExclusive))
    await settle()
    (answer,) = cnx.of_type("PRODUCER_SUCCESS")
    assert (answer.producer_success.producer_name, answer.producer_success.producer_ready) == ("second", False)
    with pytest.raises(ProducerBusy):
        await scene.producer(cnx)
    dead.close("gone")
    first.close()
    granted = await second
    assert granted.topic_epoch == 1
    assert scene.topic.producers == {"second": granted}
    with pytest.raises(ServiceNotReady):
        await lost


@pytest.mark.parametrize("turns", range(8))
async def test_who_leaves_while_it_gets_exclusive_access_does_not_keep_it(turns: int) -> None:
    scene, cnx, leaving = Scene(), FakeConnection(), FakeConnection("/leaving")
    first = await scene.producer(cnx, "first", producer_access_mode=pb.WaitForExclusive)
    waiting = asyncio.ensure_future(scene.producer(leaving, "waits", producer_access_mode=pb.WaitForExclusive))
    await settle()
    first.close()
    await settle(turns)
    leaving.is_open = False
    if waiting.done():
        waiting.result().close()  # its connection closes a producer that was told that it may produce
    waiting.cancel()
    await settle()
    assert scene.topic.producers == {}
    after = await scene.producer(cnx, "after", producer_access_mode=pb.Exclusive)
    assert scene.topic.producers == {"after": after}


async def test_fencing_refuses_those_who_wait() -> None:
    scene, cnx = Scene(), FakeConnection()
    await scene.producer(cnx)
    waiting = asyncio.ensure_future(scene.producer(cnx, producer_access_mode=pb.WaitForExclusive))
    await settle()
    await scene.producer(cnx, "fencer", producer_access_mode=pb.ExclusiveWithFencing)
    with pytest.raises(ProducerFenced, match="Fenced out"):
        await waiting
    assert list(scene.topic.producers) == ["fencer"]


async def test_an_epoch_that_cannot_be_stored_grants_nothing() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.open_failure = AppendFault("t", "no space")
    with pytest.raises(Exception, match="no space"):
        await scene.producer(cnx, producer_access_mode=pb.Exclusive)
    scene.ledger.open_failure = None
    assert (await scene.producer(cnx)).topic_epoch is None


# --- clients whose connections are dead


async def test_producers_of_dead_clients_do_not_count_for_the_limit() -> None:
    scene, dead, new = Scene(max_producers_per_topic=2), FakeConnection("/dead"), FakeConnection("/new")
    await scene.producer(FakeConnection("/alive"), "stays")
    await scene.producer(dead, "goes")
    dead.is_alive = False
    await scene.producer(new, "comes")
    assert sorted(scene.topic.producers) == ["comes", "stays"]
    with pytest.raises(ProducerBusy, match="max producers limit"):
        await scene.producer(new, "one too many")


@pytest.mark.parametrize("mode", [pb.Shared, pb.Exclusive, pb.WaitForExclusive])
async def test_an_exclusive_producer_whose_client_is_dead_keeps_nobody_out(mode: pb.ProducerAccessMode) -> None:
    scene, dead, new = Scene(), FakeConnection("/dead"), FakeConnection("/new")
    await scene.producer(dead, "old", producer_access_mode=pb.Exclusive)
    dead.is_alive = False
    await scene.producer(new, "new", producer_access_mode=mode)
    assert list(scene.topic.producers) == ["new"]


async def test_shared_producers_whose_clients_are_dead_do_not_refuse_an_exclusive_one() -> None:
    scene, dead, new = Scene(), FakeConnection("/dead"), FakeConnection("/new")
    await scene.producer(dead)
    dead.is_alive = False
    await scene.producer(new, "ex", producer_access_mode=pb.Exclusive)
    assert list(scene.topic.producers) == ["ex"]


async def test_who_waits_first_gets_access_when_a_newcomer_finds_the_exclusive_producer_dead() -> None:
    scene, dead, cnx, new = Scene(), FakeConnection("/dead"), FakeConnection("/waits"), FakeConnection("/new")
    await scene.producer(dead, "old", producer_access_mode=pb.Exclusive)
    waiting = asyncio.ensure_future(scene.producer(cnx, "waits", producer_access_mode=pb.WaitForExclusive))
    await settle()
    assert not waiting.done()
    dead.is_alive = False
    later = asyncio.ensure_future(scene.producer(new, "later", producer_access_mode=pb.WaitForExclusive))
    assert await waiting is scene.topic.producers["waits"]
    await settle()
    assert not later.done()
    scene.topic.producers["waits"].close()
    granted = await later
    assert scene.topic.producers == {"later": granted}


async def test_exclusive_access_passes_those_by_whose_clients_died_while_they_waited() -> None:
    scene, cnx, dead = Scene(), FakeConnection(), FakeConnection("/dead")
    first = await scene.producer(cnx, "first", producer_access_mode=pb.WaitForExclusive)
    lost = asyncio.ensure_future(scene.producer(dead, "lost", producer_access_mode=pb.WaitForExclusive))
    second = asyncio.ensure_future(scene.producer(cnx, "second", producer_access_mode=pb.WaitForExclusive))
    await settle()
    dead.is_alive = False
    first.close()
    granted = await second
    assert scene.topic.producers == {"second": granted}
    with pytest.raises(ServiceNotReady):
        await lost


async def test_nobody_gets_access_while_the_next_one_s_client_is_asked_and_who_fences_others_does() -> None:
    scene, cnx, asked = Scene(), FakeConnection(), FakeConnection("/asked")
    first = await scene.producer(cnx, "first", producer_access_mode=pb.WaitForExclusive)
    waiting = asyncio.ensure_future(scene.producer(asked, "waits", producer_access_mode=pb.WaitForExclusive))
    await settle()
    asked.probe = asyncio.Event()
    first.close()
    await settle()
    with pytest.raises(ProducerBusy):
        await scene.producer(cnx)
    with pytest.raises(ProducerFenced):
        await scene.producer(cnx, producer_access_mode=pb.Exclusive)
    behind = asyncio.ensure_future(scene.producer(cnx, "behind", producer_access_mode=pb.WaitForExclusive))
    await settle()
    assert not behind.done()
    await scene.producer(cnx, "fencer", producer_access_mode=pb.ExclusiveWithFencing)
    asked.probe.set()
    for each in (waiting, behind):
        with pytest.raises(ProducerFenced, match="Fenced out"):
            await each
    await settle()
    assert list(scene.topic.producers) == ["fencer"]


async def test_a_newcomer_on_the_same_connection_asks_nobody() -> None:
    scene, cnx = Scene(max_producers_per_topic=1), FakeConnection()
    await scene.producer(cnx)
    cnx.probe = asyncio.Event()
    with pytest.raises(ProducerBusy):
        await scene.producer(cnx)


async def test_one_newcomer_asks_a_bounded_number_of_connections() -> None:
    class Counting(FakeConnection):
        asked = 0

        async def check_liveness(self) -> bool:
            Counting.asked += 1
            return await super().check_liveness()

    scene = Scene(max_producers_per_topic=PROBED_MAX + 5)
    for _ in range(PROBED_MAX + 5):
        await scene.producer(Counting())
    with pytest.raises(ProducerBusy):
        await scene.producer(FakeConnection())
    assert Counting.asked == PROBED_MAX
