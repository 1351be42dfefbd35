"""What the tests of Shared subscriptions share: distinguishable messages, consumers, and their dispatcher."""

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from tests.server.topics.scene import FakeConnection, Scene, payloads, subscription_of


def numbers(count: int) -> list[bytes]:
    return payloads(*(b"%d" % number for number in range(count)))


def dispatcher_of(consumer: Consumer) -> SharedDispatcher:
    dispatcher = subscription_of(consumer).dispatcher
    assert isinstance(dispatcher, SharedDispatcher)
    return dispatcher


async def shared(scene: Scene, cnx: FakeConnection, **fields: object) -> Consumer:
    return await scene.consumer(cnx, "Shared", **fields)
