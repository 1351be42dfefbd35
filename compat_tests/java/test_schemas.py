"""Schemas and compacted topics with Apache's Java client, as far as the Python client does not support them."""

import subprocess
from pathlib import Path

import pulsar
import pytest

from compat_tests.harness import Server
from compat_tests.java.client_jars import CLIENT
from compat_tests.maven_jars import class_path, need_java
from compat_tests.python.compaction import compact

PROGRAM = Path(__file__).parent / "Schemas.java"
DEADLINE_SECONDS = 120


def run(server: Server, *arguments: str) -> dict[str, str]:
    """Runs the program and returns what it printed, by name."""
    need_java()
    jars = class_path("pulsar-java-client", CLIENT)
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars, str(PROGRAM), server.broker_url]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line and " - " not in line)


@pytest.mark.slow
def test_every_kind_of_schema(server: Server, topic: str) -> None:
    said = run(server, topic)
    assert said["auto_consume_0"] == "0 ada 2"
    assert said["auto_consume_1"] == "1 bob 3"
    assert said["auto_produce"] == "paris"
    assert said["incompatible"] == said["another_schema"] == "IncompatibleSchemaException"
    for encoding in ("SEPARATED", "INLINE"):
        assert said[f"pair_{encoding}"] == "ada ada KEY_VALUE"
        assert said[f"pair_{encoding}_other_key"] == "IncompatibleSchemaException"
    assert said["protobuf"] == said["protobuf_native"] == "7"
    assert said["protobuf_native_other_root"] == "IncompatibleSchemaException"
    primitives = {name: result for name, result in said.items() if name.startswith("primitive_")}
    assert len(primitives) == 15
    assert set(primitives.values()) == {"true"}, primitives


@pytest.mark.slow
def test_a_compacted_topic(server: Server, client: pulsar.Client, topic: str) -> None:
    """The topic holds batches from which messages were taken out, and messages that are no batch."""
    for batched in (True, False):
        producer = client.create_producer(topic, batching_enabled=batched, batching_max_publish_delay_ms=50)
        for at in range(12):
            producer.send_async(b"%d-%d" % (batched, at), None, partition_key=f"k{at % (5 - batched)}")
        producer.flush()
        producer.close()
    compact(server, topic)
    assert run(server, topic, "compacted")["compacted"].split() == ["k2:0-7", "k3:0-8", "k4:0-9", "k0:0-10", "k1:0-11"]
