"""The comparison of two servers would notice another answer, and its scenarios reach what they are made for."""

import sys
from pathlib import Path

import pytest

from compat_tests.products import Magnetar
from magnetar.server.protocol.handlers.command_table import TABLE
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint
from tests.twins.pair import difference, pair
from tests.twins.player import LEDGER_MAX, Connection, Words
from tests.twins.scenario import LEDGER, LEFT_OUT, framed, scenario

PLANTED = """
import sys
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.launcher import main
Consumer.ack_individual = lambda self, acks: None
del sys.argv[1:3]
main()
"""
SEEDS = range(90)
CLOSED_BEHIND_FLOW = 31
"""In this seed's scenario a consumer connects, asks for messages and at once sends a frame that closes the
connection."""
FLOW = bytes((8, pb.BaseCommand.FLOW))


def receipt(ledger: int) -> pb.BaseCommand:
    made = pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT)
    made.send_receipt.producer_id = made.send_receipt.sequence_id = 0
    made.send_receipt.message_id.ledgerId, made.send_receipt.message_id.entryId = ledger, 1
    return made


def test_a_seed_makes_one_scenario_and_a_name_other_topics() -> None:
    assert scenario(7, "a") == scenario(7, "a") != scenario(8, "a")
    assert not set(scenario(7, "a").topics) & set(scenario(7, "b").topics)


@pytest.mark.slow
def test_scenarios_send_all_commands_and_numbers_and_texts_that_servers_may_take_wrongly() -> None:
    frames = b"".join(frame for seed in SEEDS for _, frame in scenario(seed, "x").steps)
    kinds = [*set(TABLE) - set(LEFT_OUT), pb.BaseCommand.SEND]
    assert all(bytes((8, kind)) in frames for kind in kinds)
    assert frames.count(b"\xff\xfe") > 10
    assert frames.count(b"\xff" * 9 + b"\x01") > 10
    assert frames.count(varint(LEDGER)) > 10


def test_an_answer_that_comes_a_step_later_is_the_same_answer() -> None:
    assert difference(1, [["a", "b"], []], [["b"], ["a"]]) is None
    found = difference(1, [["a", "b"]], [["b", "c", "c"]])
    assert found is not None
    assert (found.only_first, found.only_second) == (["a"], ["c", "c"])
    assert "seed 1" in str(found)


def test_ledgers_are_numbered_and_made_up_ones_are_not() -> None:
    words = Words()
    assert words.of(receipt(77)) == Words().of(receipt(5)) != words.of(receipt(78))
    assert str(LEDGER_MAX + 1) in words.of(receipt(LEDGER_MAX + 1))
    assert words.plain("[77:1, 127.0.0.1:6650]") == "[ledger L0:1, ADDRESS]"


def test_frames_get_the_ledger_of_the_first_receipt() -> None:
    words = Words()
    acked = pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Individual)
    acked.message_id.add(ledgerId=LEDGER, entryId=3)
    frame = framed(pb.BaseCommand.ACK, acked.SerializeToString())
    assert words.with_real_ids(frame) == frame
    for ledger, received in ((4321, 4321), (5, 4321)):
        words.of(receipt(ledger))
        assert pb.BaseCommand.FromString(words.with_real_ids(frame)[8:]).ack.message_id[0].ledgerId == received


@pytest.mark.process
@pytest.mark.slow
def test_a_server_that_gets_frames_at_other_moments_answers_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second server gets each FLOW together with the next frame, as it would if it had stood still meanwhile."""
    held: dict[Connection, bytes] = {}
    say = Connection.say

    def say_with_the_next(connection: Connection, data: bytes) -> None:
        if connection.port == both.servers[1].broker_port and data[8:].startswith(FLOW):
            held[connection] = data
        else:
            say(connection, held.pop(connection, b"") + data)

    alike = Magnetar((sys.executable,))
    with pair(tmp_path, alike, alike) as both:
        monkeypatch.setattr(Connection, "say", say_with_the_next)
        assert both.compare(CLOSED_BEHIND_FLOW) is None


@pytest.mark.process
@pytest.mark.slow
def test_two_servers_of_one_kind_answer_alike_and_a_third_does_not(tmp_path: Path) -> None:
    alike = Magnetar((sys.executable,))
    with pair(tmp_path / "alike", alike, alike) as both:
        assert [both.compare(seed) for seed in range(3)] == [None] * 3
        assert both.answers["SEND_RECEIPT"] > 0
    planted = Magnetar((sys.executable, "-c", PLANTED))
    with pair(tmp_path / "other", alike, planted) as both:
        assert any(both.compare(seed) for seed in range(20))
