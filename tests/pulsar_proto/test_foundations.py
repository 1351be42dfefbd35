"""Ids, error codes, CRC-32C, and what importing the package may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pulsar_proto
from pulsar_proto import errors
from pulsar_proto.checksum import crc32c, crc32c_of
from pulsar_proto.errors import PulsarError, UnknownFault, error_of_code
from pulsar_proto.ids import EARLIEST, LATEST, Position, signed64, unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb

PACKAGE = Path(pulsar_proto.__file__).parent


def test_positions_are_ordered_by_ledger_then_entry() -> None:
    positions = [EARLIEST, Position(3, -1), Position(3, 0), Position(3, 10), Position(4, 2), LATEST]
    assert sorted(set(positions)) == positions
    assert str(Position(3, -1)) == "3:-1"


@given(st.integers(-(2**63), 2**63 - 1))
def test_ids_keep_their_sign_through_an_unsigned_field(value: int) -> None:
    message_id = pb.MessageIdData(ledgerId=unsigned64(value), entryId=0)
    assert signed64(pb.MessageIdData.FromString(message_id.SerializeToString()).ledgerId) == value


def test_every_server_error_has_one_class_of_its_own() -> None:
    for code in pb.ServerError.values():
        error = error_of_code(code, "text")
        assert (error.code, error.message, str(error)) == (code, "text", "text")
        assert type(error) is not PulsarError
    assert type(error_of_code(4711, "from the future")) is UnknownFault


def test_second_class_for_a_code_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match="repeats code 11 of TopicNotFound"):
        type("Copy", (PulsarError,), {}, code=errors.TopicNotFound.code)


def test_crc32c_is_castagnolis_and_can_be_continued() -> None:
    assert crc32c(b"123456789") == crc32c_of(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283
    assert crc32c(b"") == 0


def test_package_does_no_io_and_knows_no_clock() -> None:
    forbidden = {"asyncio", "socket", "os", "time", "random", "threading", "datetime", "selectors"}
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            roots = {name.split(".")[0] for name in names}
            assert not roots & forbidden, f"{path.name} imports {roots & forbidden}"
            assert not roots & {"metadata", "storage", "server"}, f"{path.name} imports a higher layer"


@pytest.mark.process
def test_start_of_a_server_imports_no_heavy_module() -> None:
    script = (
        "import sys, pulsar_proto.wire.commands, pulsar_proto.wire.framing, pulsar_proto.records.payload\n"
        "import pulsar_proto.records.entry_digest\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    loaded = set(done.stdout.split())
    assert "google_crc32c" in loaded
    assert not loaded & {"asyncio", "ssl", "socket", "grpc_tools", "urllib", "http", "hmac", "aiohttp", "numpy"}
