"""Whatever a consumer's or reader's peer says, and whatever a producer stored, the server serves everybody else."""

import asyncio
import contextlib
import random
from base64 import b64decode, b64encode
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.websocket.consumer_command_rules import parse_consumer_command
from magnetar.server.websocket.consumer_query_rules import (
    CryptoFailureAction,
    read_consumer_options,
    read_reader_options,
)
from magnetar.server.websocket.json_message_rules import MessageFault
from magnetar.server.websocket.received_messages import StoredEntry, open_in_turns, open_now
from magnetar.server.websocket.websocket_path_rules import QueryFault
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from tests.server.websocket.receiving_scene import TOPIC, receiving

U64 = st.integers(0, 2**64 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)

MESSAGE_IDS = st.builds(
    lambda **fields: b64encode(pb.MessageIdData(**fields).SerializeToString()).decode(),
    ledgerId=U64,
    entryId=U64,
    partition=I32,
    batch_index=I32,
    batch_size=I32,
    ack_set=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
COMMANDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["permit", "unsubscribe", "negativeAcknowledge", "isEndOfTopic", "x"]) | JSON,
        "messageId": MESSAGE_IDS | st.text(max_size=30) | JSON,
        "permitMessages": I32 | JSON,
    },
)
PARAMETERS = (
    *("subscriptionType", "subscriptionMode", "subscriptionInitialPosition", "receiverQueueSize", "ackTimeoutMillis"),
    *("consumerName", "priorityLevel", "negativeAckRedeliveryDelay", "maxRedeliverCount", "deadLetterTopic"),
    *("cryptoFailureAction", "pullMode", "messageId", "readerName"),
)


@given(st.text(max_size=50) | st.binary(max_size=50).map(repr) | COMMANDS.map(lambda each: orjson.dumps(each).decode()))
def test_a_text_is_a_command_or_a_named_fault(text: str) -> None:
    with contextlib.suppress(MessageFault):
        assert parse_consumer_command(text.encode()).permits >= 0


@given(st.dictionaries(st.sampled_from(PARAMETERS), st.text(max_size=30) | I32.map(str)))
def test_a_query_is_options_or_a_named_fault(query: dict[str, str]) -> None:
    for read in (read_consumer_options, read_reader_options):
        with contextlib.suppress(QueryFault):
            assert 1 <= read(query).window <= 1000


@given(
    st.builds(
        lambda compression, size, messages, keys, value: build_payload(
            pb.MessageMetadata(
                producer_name="p",
                sequence_id=0,
                publish_time=1,
                compression=compression,
                uncompressed_size=size,
                encryption_keys=keys,
                **({} if messages is None else {"num_messages_in_batch": messages}),
            ),
            value,
        ),
        st.sampled_from(pb.CompressionType.values()),
        st.integers(0, 2**32 - 1),
        st.none() | I32,
        st.lists(st.builds(pb.EncryptionKeys, key=st.text(max_size=3), value=st.binary(max_size=3)), max_size=1),
        st.binary(max_size=40),
    )
    | st.binary(max_size=60),
    st.sampled_from(CryptoFailureAction),
)
def test_an_entry_is_opened_or_named_a_fault(payload: bytes, action: CryptoFailureAction) -> None:
    entry = StoredEntry(1, 2, 3, 0, (), payload)
    opened = open_now(entry, action) or asyncio.run(open_in_turns(entry, action))
    for message in opened.messages:
        orjson.loads(message.text(-1))
    assert opened.messages or opened.fault


@pytest.mark.parametrize("seed", range(5))
async def test_a_socket_survives_every_sound_command_about_every_message_id(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    async with receiving(tmp_path) as scene:
        await scene.publish_batch([b"a", b"b"])
        path = f"v2/consumer/{TOPIC}/sub?subscriptionType=Shared&negativeAckRedeliveryDelay=0"
        async with scene.open(f"{path}&subscriptionInitialPosition=Earliest") as socket:
            ledger_id = pb.MessageIdData.FromString(b64decode((await socket.heard())["messageId"])).ledgerId
            for _ in range(300):
                await socket.say({"type": dice.choice(["", "negativeAcknowledge"]), "messageId": _id(dice, ledger_id)})
            await socket.say({"type": "isEndOfTopic"})
            while "endOfTopic" not in await socket.heard():
                pass
        async with scene.open(path) as socket:
            await scene.publish([b"c"])
            while await socket.values(1) != [b"c"]:
                pass


def _id(dice: random.Random, ledger_id: int) -> str:
    """Returns the text of a message id that may be near to one that exists."""
    message_id = pb.MessageIdData(
        ledgerId=dice.choice([ledger_id, ledger_id + 1, 0, 2**63 - 1, 2**64 - 1]),
        entryId=dice.choice([0, 1, 2**32, 2**64 - 1]),
        partition=dice.choice([-1, 0, 2**31 - 1]),
        batch_index=dice.choice([-(2**31), -1, 0, 1, 2, 65_535, 2**31 - 1]),
        batch_size=dice.choice([-1, 0, 1, 2, 65_536, 2**31 - 1]),
        ack_set=dice.choice([[], [0], [-1], [2**63 - 1, 0]]),
    )
    return b64encode(message_id.SerializeToString()).decode()
