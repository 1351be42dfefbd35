"""Random histories of a subscription, held against the claims of `dispatch_model`: machines for the tests beside this
module, one for each subscription type."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from magnetar.server.topics.subscriptions.key_shared_rules import KeySharedPolicy
from pulsar_proto.errors import ConsumerBusy
from pulsar_proto.ids import EARLIEST, Position, unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.rounds import rounds
from tests.server.topics.scene import ack, pass_time, redeliver, seek_command
from tests.server.topics.subscriptions.dispatch_model import Client, Model

NOT_IN_MEMORY = Position(10**9, 0)
SIZES = st.lists(st.sampled_from([0, 0, 0, 1, 3, 5]), min_size=1, max_size=7)
"""The sizes of a group's messages; 0 is a message that is no batch."""


class Histories(RuleBasedStateMachine):
    sub_type = ""
    consumers_max = 3
    key_shared: KeySharedPolicy | None = None
    consistent_hashing = True

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(
            self.sub_type,
            self.key_shared,
            subscription_key_shared_use_consistent_hashing=self.consistent_hashing,
            subscription_key_shared_consistent_hashing_replica_points=5,
            key_shared_look_ahead_msg_in_replay_threshold_per_consumer=4,
            key_shared_look_ahead_msg_in_replay_threshold_per_subscription=9,
            name="persistent://public/default/t-partition-1",
            dispatcher_max_read_batch_size=3,
            dispatcher_max_round_robin_batch_size=2,
            dispatcher_read_failure_backoff_initial_time_in_ms=1_000,
            dispatcher_read_failure_backoff_max_time_in_ms=4_000,
            max_unacked_messages_per_consumer=8,
            max_unacked_messages_per_subscription=12,
        )
        self.ledger = self.model.scene.ledger
        self.gate: asyncio.Event | None = None

    def teardown(self) -> None:
        try:
            self.end_well()
        finally:
            self.model.close()

    def a_client(self, data: st.DataObject) -> Client:
        return data.draw(st.sampled_from(self.model.clients))

    # ---- ordinary life, most of the time

    @initialize(names=st.lists(st.sampled_from("abc"), min_size=1, max_size=3))
    def begin(self, names: list[str]) -> None:
        for name in names[: self.consumers_max]:
            self.model.do(self.model.subscribe(name, 0))

    @rule(sizes=SIZES, delay_ms=st.sampled_from([0, 0, 0, 400, 1_100, 60_000]))
    def publish(self, sizes: list[int], delay_ms: int) -> None:
        self.model.publish(sizes, delay_ms)

    @rule(count=st.integers(2, 5))
    def publish_a_large_message(self, count: int) -> None:
        self.model.publish([0] * count, chunked=True)

    @rule(sizes=SIZES, permits=st.integers(1, 9))
    def publish_to_all_who_ask(self, sizes: list[int], permits: int) -> None:
        for client in self.model.clients:
            self.flow(client, permits)
        self.model.publish(sizes)

    @precondition(lambda self: self.model.clients)
    @rule(data=st.data(), permits=st.integers(1, 9))
    def one_asks(self, data: st.DataObject, permits: int) -> None:
        self.flow(self.a_client(data), permits)

    def flow(self, client: Client, permits: int) -> None:
        client.permits += permits
        self.model.call(client.consumer.flow, permits)

    @precondition(lambda self: len(self.model.clients) < self.consumers_max)
    @rule(name=st.sampled_from("abc"), priority=st.integers(0, 1), permits=st.integers(0, 20))
    def subscribe(self, name: str, priority: int, permits: int) -> None:
        self.model.do(self.model.subscribe(name, priority))
        if permits:
            self.flow(self.model.clients[-1], permits)

    @precondition(lambda self: self.model.clients)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        self.model.disconnect(self.a_client(data))

    @precondition(lambda self: self.model.clients and self.gate is None)
    @rule(data=st.data(), name=st.sampled_from("abc"), permits=st.integers(1, 20))
    def the_last_one_goes_while_a_read_is_under_way(self, data: st.DataObject, name: str, permits: int) -> None:
        """The last consumer leaves during a read, and another one comes before the read ends."""
        self.ledger.cached_from = NOT_IN_MEMORY
        self.gate = self.ledger.read_gate = asyncio.Event()
        client = self.a_client(data)
        self.flow(client, 50)
        self.model.check()
        self.give_back(client, [])
        self.model.check()
        for each in self.model.clients.copy():
            self.model.disconnect(each)
        self.model.do(self.model.subscribe(name, 0))
        self.flow(self.model.clients[-1], permits)
        self.reads_end()

    # ---- acknowledgements

    @precondition(lambda self: self.model.clients and self.model.left)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        """Acknowledges any messages, also those that this consumer never got and those that another one holds."""
        self.acknowledge_all(
            self.a_client(data), data.draw(st.lists(st.sampled_from(sorted(self.model.left)), max_size=4))
        )

    @precondition(lambda self: any(client.held for client in self.model.clients))
    @rule(data=st.data())
    def acknowledge_what_it_holds(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([client for client in self.model.clients if client.held]))
        self.acknowledge_all(client, data.draw(st.lists(st.sampled_from(sorted(client.held)), min_size=1, max_size=9)))

    def acknowledge_all(self, client: Client, positions: list[Position]) -> None:
        for position in positions:
            self.model.acknowledged(position, 0)
        self.model.call(ack, client.consumer, positions)

    @precondition(lambda self: self.model.clients and self.model.left)
    @rule(data=st.data(), mask=st.integers(0, 31))
    def acknowledge_in_part(self, data: st.DataObject, mask: int) -> None:
        position = data.draw(st.sampled_from(sorted(self.model.left)))
        mask &= (1 << self.model.batch[position]) - 1
        if self.model.batch[position] > 1:
            self.model.acknowledged(position, mask)
            self.model.call(ack, self.a_client(data).consumer, [position], ack_set=[mask])

    @precondition(lambda self: self.model.clients and self.model.positions)
    @rule(data=st.data())
    def acknowledge_up_to(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(self.model.positions))
        if not self.model.is_shared:
            for each in [each for each in self.model.left if each <= position]:
                self.model.acknowledged(each, 0)
        self.model.call(ack, self.a_client(data).consumer, [position], cumulative=True)

    @precondition(lambda self: self.model.clients)
    @rule(data=st.data())
    def redeliver_all(self, data: st.DataObject) -> None:
        self.give_back(self.a_client(data), [])

    def give_back(self, client: Client, positions: list[Position]) -> None:
        self.model.given_back(client, positions)
        self.model.call(redeliver, client.consumer, positions)

    @precondition(lambda self: self.model.clients and self.model.positions)
    @rule(data=st.data())
    def redeliver_some(self, data: st.DataObject) -> None:
        client = self.a_client(data)
        known = sorted(client.held) or self.model.positions
        self.give_back(client, data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)))

    # ---- misfortune, sometimes

    @rule(data=st.data(), what=st.sampled_from(["roll", "memory", "fail", "slow", "deaf", "seek"]))
    def misfortune(self, data: st.DataObject, what: str) -> None:
        if what == "roll":
            self.ledger.roll_now()
        elif what == "memory":
            self.ledger.cached_from = NOT_IN_MEMORY if self.ledger.cached_from == EARLIEST else EARLIEST
        elif what == "fail":
            self.ledger.read_failures = 2
        elif what == "slow" and self.gate is None:
            self.gate = self.ledger.read_gate = asyncio.Event()
        elif what == "deaf" and self.model.clients:
            self.a_client(data).cnx.is_writable = False
        elif what == "seek" and self.model.clients and self.model.positions:
            self.seek(self.a_client(data), data.draw(st.sampled_from(self.model.positions)))

    def seek(self, client: Client, position: Position) -> None:
        consumer = client.consumer
        target = pb.MessageIdData(ledgerId=unsigned64(position.ledger_id), entryId=unsigned64(position.entry_id))
        self.model.moved_to(position)
        self.model.do(consumer.seek(seek_command(consumer, message_id=target)))

    @precondition(lambda self: self.gate is not None)
    @rule()
    def reads_end(self) -> None:
        self.model.call(self.ledger.let_reads_go)
        self.gate = None

    @precondition(lambda self: any(not client.cnx.is_writable for client in self.model.clients))
    @rule()
    def everybody_reads_again(self) -> None:
        for client in self.model.clients:
            self.model.call(client.cnx.become_writable)

    @rule(seconds=st.sampled_from([0.5, 1.1, 5]))
    def time_passes(self, seconds: float) -> None:
        self.model.do(pass_time(seconds))

    @invariant()
    def claims_hold(self) -> None:
        self.model.check()

    def end_well(self) -> None:
        """Whatever happened before, one consumer that reads and acknowledges gets everything that is left."""
        model = self.model
        if self.gate is not None:
            self.model.call(self.ledger.let_reads_go)
        self.ledger.read_failures = 0
        for client in model.clients.copy():
            model.disconnect(client)
        model.do(model.subscribe("last", 0))
        model.do(pass_time(70))
        (client,) = model.clients
        client.permits += 1_000_000
        model.call(client.consumer.flow, 1_000_000)
        for _ in range(len(model.positions) + 1):
            model.do(pass_time(5))
            model.check()
            for position in list(model.left):
                if model.is_shared and position not in client.held:
                    continue
                model.acknowledged(position, 0)
                model.call(ack, client.consumer, [position])
            if not model.left:
                break
        assert client.consumer.subscription.cursor.backlog == 0


class SharedHistories(Histories):
    sub_type = "Shared"


class RingHistories(Histories):
    sub_type = "Key_Shared"
    key_shared = KeySharedPolicy()


class AutoSplitHistories(RingHistories):
    consistent_hashing = False


class StickyHistories(RingHistories):
    key_shared = KeySharedPolicy(is_sticky=True)


class DisorderHistories(RingHistories):
    key_shared = KeySharedPolicy(allows_disorder=True)


class FailoverHistories(Histories):
    sub_type = "Failover"


class ExclusiveHistories(Histories):
    sub_type = "Exclusive"
    consumers_max = 1

    @precondition(lambda self: len(self.model.clients) == 1)
    @rule()
    def a_second_one_is_refused(self) -> None:
        try:
            self.model.do(self.model.subscribe("other", 0))
        except ConsumerBusy:
            return
        raise AssertionError("two consumers of an Exclusive subscription")


LIMITS = settings(max_examples=rounds(30), stateful_step_count=40, deadline=None)
