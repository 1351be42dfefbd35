"""Random commands over the wire to a whole server: it goes on, no other client notices, and no error of ours is
logged."""

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import send_frame, simple_frame
from tests.rounds import rounds
from tests.server.fakes import command
from tests.server.protocol.frame_strategies import FRAMES, PAYLOAD, SENSIBLE
from tests.server.served import Wire, serving

PING = simple_frame(command("PING", "ping"))

SENSIBLE_FRAMES = SENSIBLE.map(simple_frame)
SENDS = st.integers(0, 3).map(
    lambda number: send_frame(pb.CommandSend(producer_id=number, sequence_id=number), PAYLOAD)
)
CHOICES = st.sampled_from([SENSIBLE_FRAMES] * 6 + [FRAMES, SENDS]).flatmap(lambda frames: frames)


def test_a_whole_server_survives_anything_in_any_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), serving(tmp_path) as served:
        quiet = Wire(served.port)

        @settings(max_examples=rounds(100), deadline=None)
        @given(st.lists(CHOICES, min_size=5, max_size=30), st.booleans())
        def scenario(frames: list[bytes], wait: bool) -> None:
            wild = Wire(served.port)
            for frame in frames:
                wild.say(frame)
                if wait:
                    wild.say(PING)
                    if wild.until(pb.BaseCommand.PONG) is None:
                        break
            wild.say(PING)
            wild.until(pb.BaseCommand.PONG)
            wild.close()
            quiet.say(PING)
            assert quiet.until(pb.BaseCommand.PONG) is not None

        scenario()
        quiet.say(simple_frame(command("PRODUCER", "producer", topic="after", producer_id=1, request_id=1)))
        assert quiet.until(pb.BaseCommand.PRODUCER_SUCCESS) is not None
        quiet.say(send_frame(pb.CommandSend(producer_id=1, sequence_id=7), PAYLOAD))
        receipt = quiet.until(pb.BaseCommand.SEND_RECEIPT)
        assert receipt is not None
        assert receipt.send_receipt.sequence_id == 7
        quiet.close()
    assert [record.getMessage() for record in caplog.records] == []
