"""One consumer of a Shared subscription gets all chunks of a large message."""

from pulsar_proto.ids import Position
from tests.server.topics.scene import FakeConnection, Scene, ack, in_virtual_time, payload, redeliver, settle


def publish_chunks(scene: Scene, uuid: str, chunks: int) -> None:
    """Publishes one message in this many chunks."""
    scene.ledger.append_now(
        [
            payload(b"%s %d" % (uuid.encode(), index), uuid=uuid, num_chunks_from_msg=chunks, chunk_id=index)
            for index in range(chunks)
        ]
    )
    scene.topic.new_messages.confirmed()


def bodies(cnx: FakeConnection) -> list[bytes]:
    found = [each.body for each in cnx.messages]
    cnx.forget()
    return found


@in_virtual_time
async def test_messages_go_in_turns_but_each_whole() -> None:
    scene = Scene(dispatcher_max_round_robin_batch_size=1)
    connections = [FakeConnection() for _ in range(3)]
    for cnx in connections:
        (await scene.consumer(cnx, "Shared")).flow(100)
    for number in range(6):
        publish_chunks(scene, f"m{number}", 4)
    await settle()
    for cnx in connections:
        got = bodies(cnx)
        assert len(got) == 8, "two messages each"
        assert all(
            got[index : index + 4] == [got[index][:-1] + b"%d" % chunk for chunk in range(4)] for index in (0, 4)
        )


@in_virtual_time
async def test_the_rest_waits_for_who_has_the_beginning_while_others_go_on() -> None:
    scene, slow, fast = Scene(), FakeConnection(), FakeConnection()
    first = await scene.consumer(slow, "Shared")
    first.flow(2)
    publish_chunks(scene, "big", 4)
    other = await scene.consumer(fast, "Shared")
    other.flow(100)
    await settle()
    assert bodies(slow) == [b"big 0", b"big 1"]
    publish_chunks(scene, "small", 2)
    assert bodies(fast) == [b"small 0", b"small 1"]
    first.flow(1)
    assert bodies(slow) == [b"big 2"]
    first.flow(5)
    assert bodies(slow) == [b"big 3"]
    publish_chunks(scene, "next", 2)
    assert len(bodies(slow) + bodies(fast)) == 2


@in_virtual_time
async def test_when_who_has_the_beginning_leaves_another_gets_everything() -> None:
    scene, slow, fast = Scene(), FakeConnection(), FakeConnection()
    first = await scene.consumer(slow, "Shared")
    first.flow(2)
    publish_chunks(scene, "big", 4)
    other = await scene.consumer(fast, "Shared")
    other.flow(100)
    await settle()
    assert bodies(fast) == []
    first.close()
    await settle()
    assert bodies(fast) == [b"big 0", b"big 1", b"big 2", b"big 3"]


@in_virtual_time
async def test_a_message_that_is_asked_for_again_comes_whole() -> None:
    scene, cnx, other = Scene(), FakeConnection(), FakeConnection()
    consumer = await scene.consumer(cnx, "Shared")
    consumer.flow(100)
    publish_chunks(scene, "big", 3)
    await settle()
    assert len(bodies(cnx)) == 3
    (await scene.consumer(other, "Shared")).flow(100)
    redeliver(consumer, [Position(10, index) for index in range(3)])
    await settle()
    again = [got for got in (bodies(cnx), bodies(other)) if got]
    assert again == [[b"big 0", b"big 1", b"big 2"]]


@in_virtual_time
async def test_a_chunk_that_was_acknowledged_while_it_waited_does_not_come() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx, "Shared")
    consumer.flow(1)
    publish_chunks(scene, "big", 3)
    await scene.consumer(FakeConnection(), "Shared")
    await settle()
    ack(consumer, [Position(10, 1)])
    consumer.flow(5)
    await settle()
    assert bodies(cnx) == [b"big 0", b"big 2"]
